#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "weft/communicator.h"
#include "weft/pgas.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

TEST(Interrupt, EndsAWaitOnAllRanksOnceTheAskedFunctionSaysSo) {
  auto two = Communicator::threads(2).value();
  int asked = 0;
  std::thread::id where;
  two[0].set_interrupt([&] {
    where = std::this_thread::get_id();
    return ++asked == 3;
  });
  std::vector<float> x(4, 1);
  const auto begin = std::chrono::steady_clock::now();
  const Status waiting = two[0].all_reduce<float>(x, x);  // rank 1 does not come
  const auto waited = std::chrono::steady_clock::now() - begin;
  ASSERT_FALSE(waiting);
  EXPECT_EQ(waiting.error().code, Code::kAborted);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_GE(waited, 40ms);                        // three questions, 20 ms apart
  Status other = two[1].all_reduce<float>(x, x);  // may end well: rank 0 had sent its part
  if (other) other = two[1].all_reduce<float>(x, x);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kAborted);
}

TEST(Interrupt, IsNotAskedByCallsThatDoNotWait) {
  auto alone = Communicator::threads(1).value();
  int asked = 0;
  alone[0].set_interrupt([&] { return ++asked > 0; });
  std::vector<float> x(4, 1);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(alone[0].all_reduce<float>(x, x));
  EXPECT_EQ(asked, 0);
}

TEST(Interrupt, EndsABarrierOfAWorldThatAnotherRankDoesNotCall) {
  auto two = pgas::World::threads(2).value();
  int asked = 0;
  two[0].team().set_interrupt([&] { return ++asked == 2; });
  const Status waiting = two[0].barrier();
  ASSERT_FALSE(waiting);
  EXPECT_EQ(waiting.error().code, Code::kAborted);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace weft
