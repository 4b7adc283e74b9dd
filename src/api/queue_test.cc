#include "weft/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/result.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

std::vector<Queue> queues(Rank ranks) {
  std::vector<Queue> all;
  auto communicators = Communicator::threads(ranks).value();
  for (Communicator& c : communicators) all.emplace_back(std::move(c));
  return all;
}

Request sum_of(std::vector<float>& data) { return {.in = data.data(), .out = data.data(), .count = data.size()}; }

// One thread queues for both ranks: neither call could end if it had to wait for its caller.
TEST(Queue, CallsMoveOnWhileTheirCallerDoesSomethingElse) {
  auto two = queues(2);
  std::vector<float> a(100000, 1), b(100000, 2);
  const auto first = two[0].start(sum_of(a));
  EXPECT_FALSE(first.wait_for(20ms));  // rank 1 has not called
  EXPECT_FALSE(first.done());
  const auto second = two[1].start(sum_of(b));
  EXPECT_TRUE(first.wait_for(60s));
  EXPECT_TRUE(first.done());
  ASSERT_TRUE(first.wait());
  ASSERT_TRUE(second.wait());
  EXPECT_EQ(a[99999], 3);
  EXPECT_EQ(b[0], 3);
}

TEST(Queue, CallsRunInTheOrderInWhichTheyWereQueued) {
  auto two = queues(2);
  std::vector<float> a(1000, 1), b(1000, 1);
  Queue::Handle last[2];
  for (int call = 0; call < 20; ++call) {
    last[0] = two[0].start(sum_of(a));
    last[1] = two[1].start(sum_of(b));
  }
  for (auto& handle : last) ASSERT_TRUE(handle.wait());
  EXPECT_EQ(a[7], 1 << 20);  // doubled by each call
}

TEST(Queue, AnErrorIsItsOwnCallsAndThoseAfterABreakFailToo) {
  auto two = queues(2);
  std::vector<float> data(10, 1);
  Request bad = sum_of(data);
  bad.root = 7;
  bad.collective = Collective::kBroadcast;
  EXPECT_EQ(two[0].start(bad).wait().error().code, Code::kInvalidArgument);
  auto waits = two[0].start(sum_of(data));
  two[0].abort();
  EXPECT_EQ(waits.wait().error().code, Code::kAborted);
  EXPECT_EQ(two[0].start(sum_of(data)).wait().error().code, Code::kAborted);
  // Rank 0 may have sent its part before it aborted: then rank 1's first call is right, and the next one fails.
  if (const Status first = two[1].start(sum_of(data)).wait(); !first) {
    EXPECT_EQ(first.error().code, Code::kAborted);
  }
  const Status next = two[1].start(sum_of(data)).wait();
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, Code::kAborted);
}

TEST(Queue, ClosingLetsAllThatIsQueuedRun) {
  auto two = queues(2);
  std::vector<float> a(1000, 1), b(1000, 1);
  std::vector<Queue::Handle> handles;
  for (int call = 0; call < 10; ++call) {
    handles.push_back(two[0].start(sum_of(a)));
    handles.push_back(two[1].start(sum_of(b)));
  }
  two.clear();
  for (const auto& handle : handles) {
    EXPECT_TRUE(handle.done());
    EXPECT_TRUE(handle.wait());
  }
  EXPECT_EQ(b[999], 1 << 10);
}

TEST(Queue, AClosedQueueTakesNothing) {
  auto one = queues(1);
  one[0].close();
  std::vector<float> data(10, 1);
  EXPECT_EQ(one[0].start(sum_of(data)).wait().error().code, Code::kInvalidArgument);
}

// Each call's callback queues the next: the thread that runs callbacks holds nothing that queueing needs.
TEST(Queue, CallbacksThatQueueMoreDoNotBlock) {
  constexpr int kCalls = 50;
  auto two = queues(2);
  std::vector<float> data[2] = {std::vector<float>(64, 1), std::vector<float>(64, 1)};
  std::atomic<int> left[2] = {kCalls, kCalls};
  std::atomic<int> ended{0};
  std::function<void(int)> next = [&](int r) {
    two[static_cast<std::size_t>(r)].start(sum_of(data[r]), [&, r](const Status& s) {
      EXPECT_TRUE(s);
      std::ranges::fill(data[r], 1.0f);
      if (--left[r] > 0)
        next(r);
      else
        ++ended;
    });
  };
  for (int r : {0, 1}) next(r);
  while (ended < 2) std::this_thread::sleep_for(1ms);
  two.clear();
  EXPECT_EQ(left[0] + left[1], 0);
}

TEST(Queue, ACallbackThatWaitsForALaterCallIsRefused) {
  auto one = queues(1);
  std::vector<float> data(8, 1);
  Status inner;
  const auto outer = one[0].start(sum_of(data), [&](const Status&) { inner = one[0].start(sum_of(data)).wait(); });
  ASSERT_TRUE(outer.wait());
  ASSERT_FALSE(inner);
  EXPECT_EQ(inner.error().code, Code::kInvalidArgument);
}

TEST(Queue, SeveralCallsRunAsOne) {
  auto two = queues(2);
  std::atomic<int> well{0};
  const auto calls = [&](Communicator& c) -> Status {
    for (int i = 0; i < 3; ++i) {
      if (auto s = c.barrier(); !s) return s;
      ++well;
    }
    return {};
  };
  const auto a = two[0].start(calls), b = two[1].start(calls);
  EXPECT_TRUE(a.wait());
  EXPECT_TRUE(b.wait());
  EXPECT_EQ(well, 6);
}

}  // namespace
}  // namespace weft
