// Every public function with values that nobody should pass: an error, or the right result; never an end of the
// process. tests/arguments/covered compares the list with the headers.

#include <gtest/gtest.h>

#include "tests/arguments/draws.h"

namespace weft::tests {
namespace {

void run_all(const std::vector<Try>& tries) {
  for (const Try& each : tries)
    for (int i = 0; i < each.times; ++i) {
      SCOPED_TRACE(each.functions.front() + ", draw " + std::to_string(i));
      Draws draws(static_cast<unsigned>(i) * 7919u + 1u);
      each.call(draws);
      if (testing::Test::HasFailure()) return;
    }
}

TEST(Arguments, OfCommunicatorsThatAreWrongAreRefused) { run_all(tries_of_communicators()); }
TEST(Arguments, OfQueuesThatAreWrongAreRefused) { run_all(tries_of_queues()); }
TEST(Arguments, OfWorldsAndTeamsThatAreWrongAreRefused) { run_all(tries_of_pgas()); }
TEST(Arguments, OfAgentsThatAreWrongAreRefused) { run_all(tries_of_transfers()); }
TEST(Arguments, OfStoresThatAreWrongAreRefused) { run_all(tries_of_kv()); }
TEST(Arguments, OfCommunicatorsOfGpusThatAreWrongAreRefused) { run_all(tries_of_gpus()); }
TEST(Arguments, OfValuesHaveAnAnswer) { run_all(tries_of_values()); }

}  // namespace
}  // namespace weft::tests
