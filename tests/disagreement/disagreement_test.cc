// A thousand random disagreements, from a seed that is printed and that WEFT_TEST_SEED sets.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "net/ucx/ucx.h"
#include "tests/disagreement/case.h"
#include "tests/disagreement/tree.h"

namespace weft::disagreement {
namespace {

struct Share {
  Over over;
  int cases;
};

std::uint64_t first_seed() {
  const char* given = std::getenv("WEFT_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

std::string name_of(const testing::TestParamInfo<Share>& info) {
  std::string name = kNames[static_cast<int>(info.param.over)];
  std::erase(name, '+');
  return name;
}

class Disagreement : public testing::TestWithParam<Share> {};

TEST_P(Disagreement, IsAnErrorAndNeverAWrongResult) {
  if (GetParam().over == Over::kUcx && !net::ucx::available()) GTEST_SKIP() << "no UCX here";
  const std::uint64_t first = first_seed();
  const auto begin = std::chrono::steady_clock::now();
  int differing = 0, mismatched = 0, explained = 0;
  for (int i = 0; i < GetParam().cases; ++i) {
    const Case c = Case::draw(first + static_cast<std::uint64_t>(i), GetParam().over);
    const Verdict v = live(c);
    ASSERT_EQ(v.wrong, "") << c.text() << "\n" << testing::PrintToString(v.said);
    differing += c.agrees ? 0 : 1;
    mismatched += v.mismatched ? 1 : 0;
    explained += v.explained ? 1 : 0;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("seed %llu: %d cases, %d differ, %d kMismatch, %d with both calls; %.1f s\n",
              static_cast<unsigned long long>(first), GetParam().cases, differing, mismatched, explained, took.count());
  EXPECT_GT(explained, 0);
}

INSTANTIATE_TEST_SUITE_P(Over, Disagreement,
                         testing::Values(Share{Over::kThreads, 950}, Share{Over::kShm, 250}, Share{Over::kTcp, 200},
                                         Share{Over::kMixed, 250}, Share{Over::kUcx, 20}),
                         name_of);

class Trees : public testing::TestWithParam<Share> {};

TEST_P(Trees, OfCommunicatorsAreWhatTheirProgramSaysThroughDeathsAndDrops) {
  if (GetParam().over == Over::kUcx && !net::ucx::available()) GTEST_SKIP() << "no UCX here";
  const std::uint64_t first = first_seed();
  for (int i = 0; i < GetParam().cases; ++i)
    ASSERT_EQ(live_tree(first + static_cast<std::uint64_t>(i), GetParam().over).wrong, "");
}

INSTANTIATE_TEST_SUITE_P(Over, Trees,
                         testing::Values(Share{Over::kShm, 60}, Share{Over::kTcp, 40}, Share{Over::kMixed, 40},
                                         Share{Over::kUcx, 5}),
                         name_of);

class Deaths : public testing::TestWithParam<Share> {};

// UCX: `make deaths` only, as ranks that meet over UCX 1.13 on crowded cores may take longer than any timeout here.
TEST_P(Deaths, AreNamedAndNobodyGoesOnAlone) {
  const std::uint64_t first = first_seed();
  for (int i = 0; i < GetParam().cases; ++i) {
    const Case c = Case::draw_with_deaths(first + static_cast<std::uint64_t>(i), GetParam().over);
    const Verdict v = live_in_processes(c);
    ASSERT_EQ(v.wrong, "") << c.text() << "\n" << testing::PrintToString(v.said);
  }
  std::printf("seed %llu: %d cases\n", static_cast<unsigned long long>(first), GetParam().cases);
}

INSTANTIATE_TEST_SUITE_P(Over, Deaths,
                         testing::Values(Share{Over::kShm, 100}, Share{Over::kTcp, 60}, Share{Over::kMixed, 40}),
                         name_of);

}  // namespace
}  // namespace weft::disagreement
