#include "model/sim/flow/max_min.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

namespace weft::sim {
namespace {

using Path = std::vector<MaxMin::Use>;

TEST(MaxMin, FlowsOnOneLinkShareItEqually) {
  MaxMin m;
  const Path link{{m.add_resource(10)}};
  const auto a = m.start(m.add_way(link), 100), b = m.start(m.add_way(link), 100);
  m.solve();
  EXPECT_DOUBLE_EQ(m.rate(a), 5);
  EXPECT_DOUBLE_EQ(m.rate(b), 5);
}

TEST(MaxMin, WhatACappedFlowLeavesGoesToTheOthers) {
  MaxMin m;
  const Path link{{m.add_resource(10)}};
  const auto a = m.start(m.add_way(link), 2), b = m.start(m.add_way(link), 100), c = m.start(m.add_way(link), 100);
  m.solve();
  EXPECT_DOUBLE_EQ(m.rate(a), 2);
  EXPECT_DOUBLE_EQ(m.rate(b), 4);  // (10 - 2) / 2
  EXPECT_DOUBLE_EQ(m.rate(c), 4);
}

TEST(MaxMin, AFlowOverTwoLinksIsHeldByTheTighterOne) {
  // Link 1 (10) carries A and B, link 2 (4) carries A and C. A and C get 2 each on link 2, so B gets 10 - 2 = 8.
  MaxMin m;
  const auto one = m.add_resource(10), two = m.add_resource(4);
  const Path pa{{one}, {two}}, pb{{one}}, pc{{two}};
  const auto a = m.start(m.add_way(pa), 100), b = m.start(m.add_way(pb), 100), c = m.start(m.add_way(pc), 100);
  m.solve();
  EXPECT_DOUBLE_EQ(m.rate(a), 2);
  EXPECT_DOUBLE_EQ(m.rate(b), 8);
  EXPECT_DOUBLE_EQ(m.rate(c), 2);
}

TEST(MaxMin, AStoppedFlowGivesItsShareBack) {
  MaxMin m;
  const Path link{{m.add_resource(10)}};
  const auto a = m.start(m.add_way(link), 100), b = m.start(m.add_way(link), 100);
  m.solve();
  m.stop(a);
  const auto changed = m.solve();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0], b);
  EXPECT_DOUBLE_EQ(m.rate(b), 10);
}

TEST(MaxMin, AChangeDoesNotTouchFlowsItCannotReach) {
  MaxMin m;
  const Path near{{m.add_resource(10)}}, far{{m.add_resource(10)}};
  m.start(m.add_way(near), 100);
  m.start(m.add_way(far), 100);
  m.solve();
  const auto c = m.start(m.add_way(near), 100);
  for (const auto f : m.solve()) EXPECT_TRUE(f == c || m.rate(f) == 5);
  EXPECT_EQ(m.rate(1), 10);
}

TEST(MaxMin, AnUnconstrainingLinkDoesNotCoupleFlows) {
  // Caps 3 + 3 fit into 10: both run at their cap, and neither start reports the other.
  MaxMin m;
  const Path link{{m.add_resource(10)}};
  m.start(m.add_way(link), 3);
  m.solve();
  const auto b = m.start(m.add_way(link), 3);
  const auto changed = m.solve();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0], b);
}

TEST(MaxMin, AFlowThatStandsForSeveralTakesTheShareOfEach) {
  // A stands for three equal flows, B for itself: four flows share 8, and A's cap of 1 leaves 5 to B.
  MaxMin m;
  const auto link = m.add_resource(8);
  const Path three{{link, 3}}, one{{link}};
  const auto a = m.start(m.add_way(three), 100), b = m.start(m.add_way(one), 100);
  m.solve();
  EXPECT_DOUBLE_EQ(m.rate(a), 2);
  EXPECT_DOUBLE_EQ(m.rate(b), 2);
  m.stop(a);
  const auto c = m.start(m.add_way(three), 1);
  m.solve();
  EXPECT_DOUBLE_EQ(m.rate(c), 1);
  EXPECT_DOUBLE_EQ(m.rate(b), 5);
}

TEST(MaxMin, AWayThatOpensOverALinkWithRoomMakesFlowsUnderWayShareIt) {
  // A link of 10 has room for A's 4 and B's 5. With C's 9 it has not; 10 / 3 is less than what any of them can do.
  MaxMin m;
  const Path link{{m.add_resource(10)}};
  const auto a = m.start(m.add_way(link), 4), b = m.start(m.add_way(link), 5);
  m.solve();
  EXPECT_DOUBLE_EQ(m.rate(a), 4);
  EXPECT_DOUBLE_EQ(m.rate(b), 5);
  const auto c = m.start(m.add_way(link), 9);
  m.solve();
  for (const auto f : {a, b, c}) EXPECT_DOUBLE_EQ(m.rate(f), 10.0 / 3);
}

TEST(MaxMin, SeveralFlowsOfOneWayShareALinkThatHadRoomForOne) {
  MaxMin m;
  const Path link{{m.add_resource(10)}};
  const auto way = m.add_way(link);
  const auto a = m.start(way, 6), b = m.start(way, 6);
  m.solve();
  EXPECT_DOUBLE_EQ(m.rate(a), 5);
  EXPECT_DOUBLE_EQ(m.rate(b), 5);
}

// Ways that are used once are not worth remembering: after many of them no link counts as having room. A flow from
// before shares with those that come after.
TEST(MaxMin, AFlowFromBeforeManyWaysThatWereUsedOnceSharesWithLaterOnes) {
  MaxMin m;
  const Path link{{m.add_resource(1000)}};
  const auto before = m.start(m.add_way(link), 400);
  for (int i = 0; i < 600; ++i) {
    const auto once = m.start(m.add_way(link), 1);
    m.solve();
    EXPECT_DOUBLE_EQ(m.rate(once), 1);
    m.stop(once);
  }
  const auto a = m.start(m.add_way(link), 500), b = m.start(m.add_way(link), 500);
  m.solve();
  for (const auto flow : {before, a, b}) EXPECT_NEAR(m.rate(flow), 1000.0 / 3, 1e-2);
  m.stop(a);
  m.solve();
  EXPECT_NEAR(m.rate(before), 400, 1e-2);
  EXPECT_NEAR(m.rate(b), 500, 1e-2);
}

TEST(MaxMin, ALinkWithRoomLimitsWhenItsCapacityFalls) {
  // And one behind a bottleneck does when that widens: 6 pass the first link, until it is 30 wide; then the second
  // has 20.
  MaxMin m;
  const auto bottleneck = m.add_resource(6), wide = m.add_resource(20);
  const auto way = m.add_way(Path{{bottleneck}, {wide}});
  const auto a = m.start(way, 25);
  m.solve();
  EXPECT_DOUBLE_EQ(m.rate(a), 6);
  m.set_capacity(bottleneck, 30);
  m.solve();
  EXPECT_DOUBLE_EQ(m.rate(a), 20);
  m.set_capacity(wide, 2);
  m.solve();
  EXPECT_DOUBLE_EQ(m.rate(a), 2);
}

TEST(MaxMin, AWayOverManyLinksFollowsTheNarrowestWhenThatChanges) {
  // Three flows of two ways over the same twenty links get a third of the narrowest link each: of 30, of 15, of 30
  // again as link 7 becomes the widest, of 6; then two flows share the 6.
  MaxMin m;
  Path links;
  for (int l = 0; l < 20; ++l) links.push_back({m.add_resource(30)});
  const auto one = m.add_way(links), two = m.add_way(links);
  const auto a = m.start(one, 100), b = m.start(one, 100), c = m.start(two, 100);
  const auto expect_all = [&](double rate) {
    m.solve();
    for (const auto flow : {a, b, c}) EXPECT_DOUBLE_EQ(m.rate(flow), rate);
  };
  expect_all(10);
  m.set_capacity(links[7].resource, 15);
  expect_all(5);
  m.set_capacity(links[7].resource, 60);
  expect_all(10);
  m.set_capacity(links[3].resource, 6);
  expect_all(2);
  m.stop(b);
  m.solve();
  EXPECT_DOUBLE_EQ(m.rate(a), 3);
  EXPECT_DOUBLE_EQ(m.rate(c), 3);
}

using Flows = std::map<MaxMin::Flow, std::pair<Path, double>>;  // with their caps

double users(const Flows& flows, MaxMin::Resource resource) {
  double sum = 0;
  for (const auto& [f, flow] : flows)
    for (const auto& use : flow.first) sum += use.resource == resource ? use.times : 0;
  return sum;
}

// Max-min rates from their definition: the rates of all flows grow together until a resource is full. Slow.
std::map<MaxMin::Flow, double> fill_from_nothing(const std::vector<double>& capacities, const Flows& flows) {
  std::map<MaxMin::Flow, double> rates;
  std::vector<double> left = capacities;
  auto open = flows;
  while (!open.empty()) {
    // The next rate at which a flow meets its cap or a resource is full.
    double level = 1e300;
    for (const auto& [f, flow] : open) {
      level = std::min(level, flow.second);
      for (const auto& use : flow.first)
        level = std::min(level, left[static_cast<std::size_t>(use.resource)] / users(open, use.resource));
    }
    std::vector<MaxMin::Flow> fixed;
    for (const auto& [f, flow] : open) {
      bool stuck = flow.second <= level * (1 + 1e-9);
      for (const auto& use : flow.first)
        stuck = stuck || left[static_cast<std::size_t>(use.resource)] / users(open, use.resource) <= level * (1 + 1e-9);
      if (stuck) fixed.push_back(f);
    }
    for (const auto f : fixed) {
      rates[f] = level;
      for (const auto& use : open[f].first) left[static_cast<std::size_t>(use.resource)] -= level * use.times;
      open.erase(f);
    }
  }
  return rates;
}

// A flow with a way of its own begins, or a flow ends; rates are then compared with the slow reference.
struct Changes {
  MaxMin& m;
  std::mt19937& random;
  const std::vector<double>& capacities;
  Flows flows = {};

  void one(const std::function<std::pair<Path, double>()>& drawn) {
    if (flows.empty() || random() % 3 != 0) {
      const auto [path, cap] = drawn();
      flows[m.start(m.add_way(path), cap)] = {path, cap};
    } else {
      const auto victim = std::next(flows.begin(), static_cast<long>(random() % flows.size()));
      m.stop(victim->first);
      flows.erase(victim);
    }
    m.solve();
    for (const auto& [f, rate] : fill_from_nothing(capacities, flows))
      ASSERT_NEAR(m.rate(f), rate, 10 * MaxMin::kTolerance * rate);
  }
};

TEST(MaxMin, StaysWithinItsToleranceOfFillingFromNothingWhileFlowsComeAndGo) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 30; ++trial) {
    SCOPED_TRACE(trial);
    MaxMin m;
    std::vector<double> capacities;
    for (int r = 0; r < 12; ++r) {
      capacities.push_back(1 + static_cast<double>(random() % 100));
      m.add_resource(capacities.back());
    }
    Changes changes{m, random, capacities};
    for (int change = 0; change < 60; ++change)
      changes.one([&]() -> std::pair<Path, double> {
        Path path;
        for (int hop = 0; hop < 3; ++hop)
          if (const auto r = static_cast<MaxMin::Resource>(random() % 12);
              std::ranges::find(path, r, &MaxMin::Use::resource) == path.end())
            path.push_back({r, 1 + static_cast<std::int32_t>(random() % 3)});
        return {path, 1 + static_cast<double>(random() % 60)};
      });
  }
}

// A switch with `up` and `down` of every GPU's link, and the ways through it: what all others read of a GPU, what a GPU
// stores to all, and what one sends to another.
struct Switch {
  std::vector<MaxMin::Resource> up, down;

  Switch(MaxMin& m, std::vector<double>& capacities, int gpus, std::mt19937& random) {
    for (int i = 0; i < 2 * gpus; ++i) {
      capacities.push_back(20 + static_cast<double>(random() % 20));
      (i % 2 == 0 ? up : down).push_back(m.add_resource(capacities.back()));
    }
  }
  Path way(unsigned kind, std::size_t a, std::size_t b) const {
    Path path{{kind == 0 ? down[a] : up[a]}};
    if (kind == 2) return {{up[a]}, {down[b]}};
    for (const MaxMin::Resource r : kind == 0 ? up : down) path.push_back({r});
    return path;
  }
};

TEST(MaxMin, StaysWithinItsToleranceWhereASwitchCopies) {
  constexpr std::size_t kGpus = 18;
  std::mt19937 random(20261128);
  for (int trial = 0; trial < 4; ++trial) {
    SCOPED_TRACE(trial);
    MaxMin m;
    std::vector<double> capacities;
    const Switch one(m, capacities, kGpus, random), two(m, capacities, kGpus, random);
    Changes changes{m, random, capacities};
    for (int change = 0; change < 80; ++change)
      changes.one([&]() -> std::pair<Path, double> {
        const Path path = (random() % 2 == 0 ? one : two)
                              .way(static_cast<unsigned>(random() % 3), random() % kGpus, random() % kGpus);
        return {path, 1 + static_cast<double>(random() % 40)};
      });
  }
}

// A share that changes concerns the 72 links of a rack's switch and the other link of each of 72 ways, not 73 links of
// each way: 5,256.
TEST(MaxMin, LooksAtASwitchThatCopiesOncePerChange) {
  constexpr std::size_t kGpus = 72;
  MaxMin m;
  std::mt19937 random(7);
  std::vector<double> capacities;
  const Switch rack(m, capacities, kGpus, random);
  std::vector<MaxMin::Flow> flows;
  for (std::size_t i = 0; i < kGpus; ++i) flows.push_back(m.start(m.add_way(rack.way(0, i, 0)), 10));
  m.solve();
  const MaxMin::Work before = m.work();
  for (const MaxMin::Flow f : flows) {
    m.stop(f);
    m.solve();
  }
  const auto shares = static_cast<double>(m.work().shares - before.shares);
  EXPECT_GT(shares, 0);
  EXPECT_LE(static_cast<double>(m.work().neighbours - before.neighbours) / shares, 2.0 * kGpus);
}

}  // namespace
}  // namespace weft::sim
