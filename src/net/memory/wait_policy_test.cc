#include "net/memory/wait_policy.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "net/memory/test_segment.h"

namespace weft::net::memory {
namespace {

// Kernels may leave two ranks on one core for seconds: who spins there only keeps the other from running.
TEST(WaitPolicy, ARankFindsThatAnotherOneHasItsCore) {
  constexpr Rank kRanks = 3;
  const TestSegment memory(kRanks);
  const Segment segment = memory.segment;
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  const int core = sched_getcpu();
  ASSERT_GE(core, 0);
  CPU_SET(static_cast<std::size_t>(core), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);

  WaitPolicy policy(segment, 1, {}, [](Rank) { return false; });
  EXPECT_FALSE(policy.shares_core()) << "the others have not waited yet";
  EXPECT_EQ(segment.block(1).core, core + 1);
  segment.block(0).core = core + 2;
  EXPECT_FALSE(policy.shares_core());
  segment.block(2).core = core + 1;
  EXPECT_TRUE(policy.shares_core());
  segment.block(2).core = core + 2;
  EXPECT_FALSE(policy.shares_core());
  EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(Crowd, AYieldThatTakesASliceShowsAnotherProgram) {
  Crowd crowd;
  const Crowd::Clock::time_point start(std::chrono::hours(1));
  const auto nobody = [] { return Rank{0}; };
  EXPECT_FALSE(crowd.computes_here(start));
  crowd.yielded(microseconds(250), start, nobody);
  EXPECT_FALSE(crowd.computes_here(start));
  crowd.yielded(microseconds(700), start, nobody);
  EXPECT_TRUE(crowd.computes_here(start + milliseconds(1)));
  EXPECT_FALSE(crowd.computes_here(start + milliseconds(10))) << "it looks again";
}

TEST(Crowd, PeersThatHadTheirTurnAreNone) {
  Crowd crowd;
  const Crowd::Clock::time_point start(std::chrono::hours(1));
  crowd.yielded(microseconds(700), start, [] { return Rank{3}; });
  EXPECT_FALSE(crowd.computes_here(start));
  crowd.yielded(microseconds(1700), start, [] { return Rank{3}; });
  EXPECT_TRUE(crowd.computes_here(start));
}

TEST(Crowd, LooksSeldomWhereTheOtherProgramStaysAndSoonWhereItHasEnded) {
  Crowd crowd;
  Crowd::Clock::time_point now(std::chrono::hours(1));
  const auto nobody = [] { return Rank{0}; };
  int looks = 0;
  for (const auto end = now + std::chrono::seconds(20); now < end; now += milliseconds(1))
    if (!crowd.computes_here(now)) ++looks, crowd.yielded(microseconds(750), now, nobody);
  EXPECT_LT(looks, 40);
  now += std::chrono::seconds(5);
  for (int i = 0; i < 1000; ++i) crowd.yielded(microseconds(1), now += milliseconds(1), nobody);
  crowd.yielded(microseconds(750), now, nobody);
  EXPECT_FALSE(crowd.computes_here(now + milliseconds(10)));
}

}  // namespace
}  // namespace weft::net::memory
