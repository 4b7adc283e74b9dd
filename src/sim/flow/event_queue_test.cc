#include "sim/flow/event_queue.h"

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

}  // namespace
}  // namespace weft::sim
