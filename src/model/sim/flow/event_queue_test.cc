#include "model/sim/flow/event_queue.h"

#include <gtest/gtest.h>

#include <random>

namespace weft::sim {
namespace {

TEST(EventQueue, PopsByTimeThenByInsertion) {
  // 40 different delays: more than there are lines, so the heap takes part.
  std::mt19937 random(7);
  EventQueue<int> queue;
  Duration now;
  std::uint64_t last_order = 0;
  int pushed = 0, popped = 0;
  while (popped < 20000) {
    if (pushed < 20000 && (queue.empty() || random() % 2 == 0)) {
      queue.push(now, Duration::picoseconds(static_cast<std::int64_t>(random() % 40)), pushed++);
      continue;
    }
    const Duration next = queue.next_time();
    const auto event = queue.pop();
    ++popped;
    ASSERT_EQ(event.time, next);
    ASSERT_GE(event.time, now);
    if (event.time == now && popped > 1) {
      ASSERT_GT(event.order, last_order);
    }
    now = event.time;
    last_order = event.order;
  }
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueue, KeepsEventsOfOneDelayInOrderAcrossGrowth) {
  EventQueue<int> queue;
  for (int i = 0; i < 1000; ++i) queue.push(Duration::picoseconds(i), Duration::picoseconds(5000), i);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(queue.pop().payload, i);
}

TEST(EventQueue, AnEventReplacesTheOneOfItsKeyInTheHeap) {
  // Ever new delays fill the lines, so that most events go to the heap. What comes out beside stale events of lines is
  // the last event of every key, and all without one, in the order of time.
  std::mt19937 random(11);
  EventQueue<int> queue;
  std::vector<int> latest(50, -1);
  Duration now;
  int pushed = 0;
  std::size_t popped = 0;
  while (pushed < 20000 || !queue.empty()) {
    if (pushed < 20000 && (queue.empty() || random() % 3 != 0)) {
      const auto key = static_cast<std::int32_t>(random() % 60) - 10;
      if (key >= 0) latest[static_cast<std::size_t>(key)] = pushed;
      queue.push(now, Duration::picoseconds(static_cast<std::int64_t>(random() % 5000)), pushed++, std::max(-1, key));
      continue;
    }
    const auto event = queue.pop();
    ASSERT_GE(event.time, now);
    now = event.time;
    ++popped;
    if (event.key >= 0 && latest[static_cast<std::size_t>(event.key)] == event.payload)
      latest[static_cast<std::size_t>(event.key)] = -1;
  }
  for (const int left : latest) EXPECT_EQ(left, -1);  // the latest event of every key came
  EXPECT_LT(popped, 15000u);                          // and most others did not
}

}  // namespace
}  // namespace weft::sim
