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

}  // namespace
}  // namespace weft::net::memory
