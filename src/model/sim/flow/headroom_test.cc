#include "model/sim/flow/headroom.h"

#include <gtest/gtest.h>

namespace weft::sim {
namespace {

using Uses = std::vector<Headroom::Use>;

// Links of these capacities, numbered from 0.
Headroom links(std::initializer_list<double> capacities) {
  Headroom room;
  for (const double capacity : capacities) room.add(capacity);
  return room;
}

std::vector<Headroom::Resource> claim(Headroom& room, Headroom::Way way, const Uses& path, double more,
                                      bool first = true) {
  const auto newly = room.claim(way, path, more, first);
  return {newly.begin(), newly.end()};
}

using Binding = std::vector<Headroom::Resource>;

TEST(Headroom, ALinkBindsOnceMoreIsClaimedThanItHas) {
  Headroom room = links({10});
  EXPECT_EQ(claim(room, 0, {{0}}, 4), Binding{});
  EXPECT_EQ(claim(room, 1, {{0}}, 6), Binding{});
  EXPECT_EQ(claim(room, 0, {{0}}, 1, false), Binding{0});
  EXPECT_EQ(room.take_ways(0), (std::vector<Headroom::Way>{0, 1}));
  EXPECT_EQ(claim(room, 2, {{0}}, 6), Binding{}) << "it has long begun to";
}

TEST(Headroom, AFlowThatCrossesALinkTwiceClaimsTwice) {
  Headroom room = links({10});
  EXPECT_EQ(claim(room, 0, {{0, 2}}, 6), Binding{0});
}

TEST(Headroom, ALinkBehindABottleneckNeverBinds) {
  // No more than 5 come out of link 0, however much these ways want.
  Headroom room = links({5, 8});
  EXPECT_EQ(claim(room, 0, {{0}, {1}}, 100), Binding{0});
  EXPECT_EQ(claim(room, 1, {{0}, {1}}, 100), Binding{});
  EXPECT_FALSE(room.binds(1));
}

TEST(Headroom, ALinkBehindSeveralNecksBindsOnceTheyLetMoreThrough) {
  // 5 + 5 fit into 11; what a third way without a bottleneck wants is counted in full.
  Headroom room = links({5, 5, 11});
  EXPECT_EQ(claim(room, 0, {{0}, {2}}, 100), Binding{0});
  EXPECT_EQ(claim(room, 1, {{1}, {2}}, 100), Binding{1});
  EXPECT_EQ(claim(room, 2, {{2}}, 2), Binding{2});
}

TEST(Headroom, OfTwoEqualLinksInARowOneBinds) {
  Headroom room = links({5, 5});
  EXPECT_EQ(claim(room, 0, {{1}, {0}}, 100), Binding{0});
}

TEST(Headroom, ANeckThatIsCrossedLessOftenIsNone) {
  // Three of link 1 for one of link 0: 5 of that are 15 of this.
  Headroom room = links({5, 8});
  EXPECT_EQ(claim(room, 0, {{0, 1}, {1, 3}}, 100), (Binding{0, 1}));
}

TEST(Headroom, ALinkThatVeryManyWaysCrossIsTakenToBind) {
  Headroom room = links({1e6});
  Headroom::Way way = 0;
  while (!room.binds(0) && way < 1000) claim(room, way++, {{0}}, 1);
  EXPECT_LT(way, 100);
  EXPECT_EQ(room.take_ways(0).size(), static_cast<std::size_t>(way));
}

TEST(Headroom, GivenUpEverythingBindsAlsoWhatComesLater) {
  Headroom room = links({5});
  ASSERT_EQ(room.give_up().size(), 1u);
  EXPECT_EQ(room.give_up().size(), 0u);
  room.add(7);
  EXPECT_TRUE(room.binds(1));
}

}  // namespace
}  // namespace weft::sim
