#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "weft/communicator.h"
#include "weft/interrupt.h"
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

TEST(Interrupt, EndsAMonitoredBarrierOnTheRankThatWaits) {
  auto two = Communicator::threads(2).value();
  int asked = 0;
  two[0].set_interrupt([&] { return ++asked == 2; });
  const Status waiting = two[0].monitored_barrier(30s);
  ASSERT_FALSE(waiting);
  EXPECT_EQ(waiting.error().code, Code::kAborted) << waiting.error().message;
}

TEST(Interrupt, EndsTheMeetingOfARankThatWaitsForOthers) {
  auto place = MeetingPlace::open(2).value();
  int asked = 0;
  const Interruptible scope([&] { return ++asked == 3; });
  const auto begin = std::chrono::steady_clock::now();
  const auto waiting = Communicator::connect(place.id(), 0, 2, {.transport = "tcp"});  // rank 1 never comes
  ASSERT_FALSE(waiting);
  EXPECT_EQ(waiting.error().code, Code::kAborted) << waiting.error().message;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s) << "the timeout is 30 s";
}

TEST(Interrupt, OfAnInnerScopeEndsWithIt) {
  const Interruptible outer([] { return false; });
  {
    const Interruptible inner([]() -> bool { throw 1; });
    EXPECT_TRUE(Interruptible::asked()) << "what throws says yes";
  }
  EXPECT_FALSE(Interruptible::asked());
}

TEST(Communicators, OfAMeetingPlaceThatIsGoneAreRefusedByName) {
  const UniqueId id = MeetingPlace::open(2).value().id();
  const auto refused = Communicator::connect(id, 0, 2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("has been dropped"), std::string::npos) << refused.error().message;
}

TEST(Communicators, ThatAreFinalizedNeitherShrinkNorAgree) {
  auto alone = Communicator::threads(1).value();
  ASSERT_TRUE(alone[0].finalize());
  const auto shrunk = alone[0].shrink();
  const auto agreed = alone[0].agree(1);
  ASSERT_FALSE(shrunk);
  ASSERT_FALSE(agreed);
  EXPECT_EQ(shrunk.error().message, "rank 0: the communicator is finalized");
  EXPECT_EQ(agreed.error().message, shrunk.error().message);
}

TEST(TaggedMessages, ThatWereStartedTimeOutFromTheirStart) {
  auto two = Communicator::threads(2).value();
  float x = 0;
  auto message = two[0].start_receive(&x, 1, DataType::kFloat32, 1, 7, 50ms).value();
  Result<bool> done = false;
  while (done && !*done) done = message.test();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kTimeout);
  EXPECT_EQ(done.error().blame, Blame::kOperation);
  EXPECT_TRUE(two[0].status()) << "the communicator works on";
}

}  // namespace
}  // namespace weft
