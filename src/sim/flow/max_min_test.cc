#include "sim/flow/max_min.h"

#include <gtest/gtest.h>

namespace weft::sim {
namespace {

using Path = std::vector<MaxMin::Resource>;

TEST(MaxMin, FlowsOnOneLinkShareItEqually) {
  MaxMin m;
  const Path link{m.add_resource(10)};
  const auto a = m.start(link, 100), b = m.start(link, 100);
  m.solve();
  EXPECT_DOUBLE_EQ(m.rate(a), 5);
  EXPECT_DOUBLE_EQ(m.rate(b), 5);
}

TEST(MaxMin, WhatACappedFlowLeavesGoesToTheOthers) {
  MaxMin m;
  const Path link{m.add_resource(10)};
  const auto a = m.start(link, 2), b = m.start(link, 100), c = m.start(link, 100);
  m.solve();
  EXPECT_DOUBLE_EQ(m.rate(a), 2);
  EXPECT_DOUBLE_EQ(m.rate(b), 4);  // (10 - 2) / 2
  EXPECT_DOUBLE_EQ(m.rate(c), 4);
}

TEST(MaxMin, AFlowOverTwoLinksIsHeldByTheTighterOne) {
  // Link 1 (10) carries A and B, link 2 (4) carries A and C. A and C get 2 each on link 2, so B gets 10 - 2 = 8.
  MaxMin m;
  const auto one = m.add_resource(10), two = m.add_resource(4);
  const Path pa{one, two}, pb{one}, pc{two};
  const auto a = m.start(pa, 100), b = m.start(pb, 100), c = m.start(pc, 100);
  m.solve();
  EXPECT_DOUBLE_EQ(m.rate(a), 2);
  EXPECT_DOUBLE_EQ(m.rate(b), 8);
  EXPECT_DOUBLE_EQ(m.rate(c), 2);
}

TEST(MaxMin, AStoppedFlowGivesItsShareBack) {
  MaxMin m;
  const Path link{m.add_resource(10)};
  const auto a = m.start(link, 100), b = m.start(link, 100);
  m.solve();
  m.stop(a);
  const auto changed = m.solve();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0], b);
  EXPECT_DOUBLE_EQ(m.rate(b), 10);
}

TEST(MaxMin, AChangeDoesNotTouchFlowsItCannotReach) {
  MaxMin m;
  const Path near{m.add_resource(10)}, far{m.add_resource(10)};
  m.start(near, 100);
  m.start(far, 100);
  m.solve();
  const auto c = m.start(near, 100);
  for (const auto f : m.solve()) EXPECT_TRUE(f == c || m.rate(f) == 5);
  EXPECT_EQ(m.rate(1), 10);
}

TEST(MaxMin, AnUnconstrainingLinkDoesNotCoupleFlows) {
  // Caps 3 + 3 fit into 10: both run at their cap, and neither start reports the other.
  MaxMin m;
  const Path link{m.add_resource(10)};
  m.start(link, 3);
  m.solve();
  const auto b = m.start(link, 3);
  const auto changed = m.solve();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0], b);
}

}  // namespace
}  // namespace weft::sim
