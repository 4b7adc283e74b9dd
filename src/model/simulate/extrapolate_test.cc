#include "model/simulate/extrapolate.h"

#include <gtest/gtest.h>

#include "machine/machine.h"
#include "model/sim/flow/flow_fabric.h"
#include "model/simulate/simulate.h"
#include "plan/collectives/registry.h"
#include "plan/cost/shipped.h"

namespace weft::simulate {
namespace {

using schedule::Growth;

struct Timed {
  Duration time;
  std::int64_t operations = 0;
  double represented = 0;
  double uncertainty = 0;
};

// Runs a law of time; every node costs a thousand operations.
template <class Law>
struct Lawful {
  Law law;
  Rank most = 0;

  Timed at(Growth growth, Rank nodes, double affordable = 0) {
    return *extrapolate(growth, nodes, 8, {affordable, 2e6}, [&](Rank n) -> Result<Timed> {
      most = std::max(most, n);
      return Timed{Duration::microseconds(law(static_cast<double>(n))), std::int64_t{1000} * n, 1000.0 * n};
    });
  }
};

TEST(Continued, AddsOneLinkPerDoublingOrPerNode) {
  Lawful tree{[](double n) { return 100 + 5 * std::ceil(std::log2(n)); }};
  EXPECT_NEAR(tree.at(Growth::kPerDoubling, 16384).time.us(), 100 + 5 * 14, 1e-6);
  EXPECT_EQ(tree.most, 32);                                                        // 8, 16, 32 agree
  EXPECT_NEAR(tree.at(Growth::kPerDoubling, 1000).time.us(), 100 + 5 * 10, 1e-6);  // 8, 16, 32 of 1000 halved

  Lawful chain{[](double n) { return 100 + 5 * n; }};
  const Timed far = chain.at(Growth::kPerNode, 16384);
  EXPECT_NEAR(far.time.us(), 100 + 5 * 16384, 1e-3);
  EXPECT_EQ(chain.most, 16);  // 8, 12, 16 agree
  EXPECT_NEAR(far.uncertainty, 0, 1e-9);
  EXPECT_NEAR(far.represented, 1000.0 * 16384, 1);  // as operations have grown so far
}

TEST(Continued, WhatIsCheapIsRunInFull) {
  Lawful tree{[](double n) { return std::log2(n); }};
  EXPECT_EQ(tree.at(Growth::kPerDoubling, 16384, 2e7).uncertainty, 0);
  EXPECT_EQ(tree.most, 16384);
}

TEST(Continued, TriesLargerSizesUntilThreeAgreeOrTheyCostTooMuch) {
  // Up to 64 nodes a link takes 1 us, beyond 3 us.
  Lawful tiers{[](double n) { return 100 + std::log2(n) + (n > 64 ? 2 * std::log2(n / 64) : 0); }};
  EXPECT_NEAR(tiers.at(Growth::kPerDoubling, 16384).time.us(), 100 + 8 + 6 + 4, 10);
  Lawful early{[](double n) { return n < 32 ? 100 + n : 100 + 32 + 5 * std::log2(n / 32); }};
  EXPECT_NEAR(early.at(Growth::kPerDoubling, 16384).time.us(), 132 + 5 * 9, 1e-6);
  EXPECT_EQ(early.most, 128);  // 32, 64 and 128 agree
  // Never: it stops below 2 million operations, 2000 nodes, and says how unsure it is.
  Lawful wild{[](double n) { return n * n; }};
  const Timed unsure = wild.at(Growth::kPerNode, 131072);
  EXPECT_GT(unsure.uncertainty, 0.1);
  EXPECT_EQ(wild.most, 1536);  // 8, 12, 16, 24, … 1024, 1536, and 2048 would cost more
}

// Levels within a leaf of 32 nodes take 3 us each, within a group of 1024 nodes 5 us, beyond it 7 us.
struct Levelled {
  Rank most = 0;
  int runs = 0;

  static double law(double nodes, double apart) {
    const auto up_to = [&](double distance) { return std::log2(std::min(nodes * apart, std::max(distance, apart))); };
    return 100 + 3 * up_to(32) + 5 * (up_to(1024) - up_to(32)) + 7 * (up_to(1 << 30) - up_to(1024)) -
           3 * std::log2(apart);
  }
  Timed at(Rank nodes, Rank base, std::vector<Tier> tiers, double affordable = 0) {
    const auto run = [&](Rank n, Rank apart) -> Result<Timed> {
      ++runs;
      most = std::max(most, n);
      return Timed{Duration::microseconds(law(n, apart)), std::int64_t{1000} * n, 1000.0 * n};
    };
    return *extrapolate_by_levels(*run(base, 1), nodes, base, tiers, {affordable, 2e6}, run);
  }
};

TEST(ContinuedByLevels, AddsEveryTiersLevelsAtItsOwnPace) {
  Levelled two;
  const Timed near = two.at(1024, 64, {{32, 1024}});
  EXPECT_NEAR(near.time.us(), 100 + 5 * 3 + 5 * 5, 1e-6);
  EXPECT_NEAR(near.uncertainty, 0, 1e-9);
  EXPECT_NEAR(near.represented, 1000.0 * 1024, 1);
  EXPECT_EQ(two.most, 64);
  Levelled three;
  EXPECT_NEAR(three.at(16384, 64, {{32, 1024}, {1024, 16384}}).time.us(), 100 + 5 * 3 + 5 * 5 + 4 * 7, 1e-6);
  EXPECT_EQ(three.most, 64);
}

TEST(ContinuedByLevels, WhatIsCheapIsRunInFull) {
  Levelled all;
  EXPECT_EQ(all.at(1024, 64, {{32, 1024}}, 2e6).uncertainty, 0);
  EXPECT_EQ(all.most, 1024);
  EXPECT_EQ(all.runs, 2);
}

cost::MachineView machine_of(const std::string& name) {
  return cost::shipped_view(topology::load_machine(name).value()).value();
}

struct Case {
  const char* machine;
  std::string_view algorithms;  // whose names begin so
  Bytes bytes;
  int channels;
  double most_operations = 2e6;  // 0: of trees, by levels
};

class ContinuedAndFull : public testing::TestWithParam<Case> {};

// Every algorithm that claims how it grows, where ways between nodes do not differ by chance.
TEST_P(ContinuedAndFull, TakeEquallyLong) {
  const cost::MachineView machine = machine_of(GetParam().machine);
  const Rank ranks = machine.endpoints();
  int count = 0;
  for (const schedule::Algorithm& a : collectives::algorithms()) {
    if (a.growth == Growth::kUnknown || a.growth == Growth::kPerRow || a.needs.aggregation ||
        !a.name.starts_with(GetParam().algorithms))
      continue;
    const schedule::Task task{.collective = a.collective,
                              .ranks = ranks,
                              .ranks_per_node = machine.ranks_per_node(ranks),
                              .elements = a.collective == Collective::kBarrier ? 0 : GetParam().bytes / 4,
                              .element_bytes = 4};
    const schedule::Plan plan = make_plan(task, a, protocol::Protocol::kSimple, GetParam().channels,
                                          sim::flow_capabilities(machine.topology(), 64), true);
    if (a.collective != Collective::kBarrier && cut_of(task, plan).round == 0) continue;
    const auto quick =
        simulate(machine, task, plan, {.fold = false, .affordable = 0, .most_operations = GetParam().most_operations});
    const auto full = simulate(machine, task, plan, {.fold = false, .affordable = -1});
    ASSERT_EQ(quick.has_value(), full.has_value()) << a.name;
    if (!quick || quick->extrapolated_from == 0) continue;
    ++count;
    EXPECT_NEAR(quick->time / full->time, 1, std::max(1e-3, quick->uncertainty))
        << a.name << " " << schedule::name(a.collective) << " from " << quick->extrapolated_from << " of " << ranks;
    EXPECT_LE(quick->uncertainty, kAbout) << a.name;  // a larger doubt would let anything pass
  }
  EXPECT_GE(count, 1);
}

INSTANTIATE_TEST_SUITE_P(Machines, ContinuedAndFull,
                         testing::Values(Case{"gh200:nodes=128,net=ib-ndr,wires=switch", "ring", 1 << 20, 1},
                                         Case{"gh200:nodes=128,net=ib-ndr,wires=switch", "recursive", 64 << 20, 2},
                                         Case{"gh200:nodes=128,net=ib-ndr,wires=switch", "tree", 1 << 20, 1},
                                         Case{"gh200:nodes=128,net=ib-ndr,wires=switch", "coll_tree", 1 << 20, 1},
                                         Case{"gh200:nodes=512,net=ib-ndr", "tree", 1 << 20, 1, 0},
                                         Case{"gh200:nodes=512,net=ib-ndr", "coll_tree", 64 << 10, 1, 0},
                                         Case{"dgx-h100:nodes=512,net=ib-ndr", "nvls_tree", 1 << 20, 1, 0},
                                         Case{"dgx-h100:nodes=1024,net=ib-ndr,tiers=3", "tree", 1 << 20, 1, 0},
                                         Case{"gh200:nodes=128,net=ib-ndr,wires=switch", "pairwise", 1 << 20, 1},
                                         Case{"gh200:nodes=128,net=ib-ndr,wires=switch", "spread", 1 << 20, 1},
                                         Case{"gh200:nodes=128,net=ib-ndr,wires=switch", "all_pairs", 1 << 20, 1},
                                         Case{"gh200:nodes=128,net=ib-ndr,wires=switch", "dissemination", 0, 1},
                                         Case{"dgx-h100:nodes=128,net=ib-ndr,wires=switch", "nvls", 16 << 20, 1}),
                         [](const auto& info) { return std::string("Case") + std::to_string(info.index); });

}  // namespace
}  // namespace weft::simulate
