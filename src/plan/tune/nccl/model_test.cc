#include "plan/tune/nccl/model.h"

#include <gtest/gtest.h>

namespace weft::tune::nccl {
namespace {

using protocol::Protocol;

constexpr Bytes kKi = 1 << 10, kMi = 1 << 20;

// One node of eight Hopper GPUs.
System one_node() {
  return {.ranks = 8,
          .nodes = 1,
          .compute_capability = 90,
          .nvswitch = true,
          .channels = 16,
          .ring = {16, 20, 20},
          .tree = {16, 20, 20},
          .nvls = {8, 40, 40}};
}

// Four of them with Intel CPUs.
System four_nodes() {
  return {.ranks = 32,
          .nodes = 4,
          .compute_capability = 90,
          .nvswitch = true,
          .channels = 16,
          .ring = {8, 24, 24},
          .tree = {8, 24, 24}};
}

Row row_of(const System& s, Algorithm a, Protocol p, Bytes bytes = 8) {
  for (const Row& row : rows(s, Collective::kAllReduce, bytes))
    if (row.algorithm == a && row.protocol == p) return row;
  return {};
}

Row chosen(const System& s, Bytes bytes) {
  for (const Row& row : rows(s, Collective::kAllReduce, bytes))
    if (row.chosen) return row;
  return {};
}

struct Expected {
  Algorithm algorithm;
  Protocol protocol;
  double latency_us, rate_GBps;
};

// Expected values: an independent calculation from the published formulas (not NCCL's output), to two digits.
TEST(NcclModel, GivesTheLatenciesAndRatesOfOneNode) {
  const Expected kRows[] = {
      {Algorithm::kTree, Protocol::kLL, 15.20, 38.74},      {Algorithm::kTree, Protocol::kLL128, 31.50, 114.49},
      {Algorithm::kTree, Protocol::kSimple, 64.40, 147.20}, {Algorithm::kRing, Protocol::kLL, 15.00, 80.57},
      {Algorithm::kRing, Protocol::kLL128, 40.60, 168.23},  {Algorithm::kRing, Protocol::kSimple, 56.00, 182.86},
      {Algorithm::kNvls, Protocol::kSimple, 25.00, 182.86}};
  for (const Expected& e : kRows) {
    const Row row = row_of(one_node(), e.algorithm, e.protocol);
    EXPECT_NEAR(row.latency.us(), e.latency_us, 0.005) << name(e.algorithm);
    EXPECT_NEAR(row.rate.gb(), e.rate_GBps, 0.005) << name(e.algorithm);
  }
}

TEST(NcclModel, GivesTheLatenciesAndRatesOfFourNodes) {
  const Expected kRows[] = {
      {Algorithm::kTree, Protocol::kLL, 35.20, 10.20},      {Algorithm::kTree, Protocol::kLL128, 65.50, 82.80},
      {Algorithm::kTree, Protocol::kSimple, 120.40, 88.32}, {Algorithm::kRing, Protocol::kLL, 78.80, 10.53},
      {Algorithm::kRing, Protocol::kLL128, 144.40, 91.17},  {Algorithm::kRing, Protocol::kSimple, 282.80, 99.10}};
  for (const Expected& e : kRows) {
    const Row row = row_of(four_nodes(), e.algorithm, e.protocol);
    EXPECT_NEAR(row.latency.us(), e.latency_us, 0.005) << name(e.algorithm);
    EXPECT_NEAR(row.rate.gb(), e.rate_GBps, 0.005) << name(e.algorithm);
  }
}

struct Choice {
  Bytes bytes;
  Algorithm algorithm;
  Protocol protocol;
  double time_us;
};

void expect_choices(const System& system, std::initializer_list<Choice> choices) {
  for (const Choice& c : choices) {
    const Row row = chosen(system, c.bytes);
    EXPECT_EQ(name(row.algorithm), name(c.algorithm)) << c.bytes;
    EXPECT_EQ(traits(row.protocol).name, traits(c.protocol).name) << c.bytes;
    EXPECT_NEAR(row.time.us(), c.time_us, c.time_us * 1e-3) << c.bytes;
  }
}

TEST(NcclModel, ChoosesOnOneNode) {
  System without = one_node();
  without.nvls = {};
  expect_choices(without, {{8, Algorithm::kRing, Protocol::kLL, 15.00},
                           {64 * kKi, Algorithm::kRing, Protocol::kLL, 15.81},
                           {1 * kMi, Algorithm::kRing, Protocol::kLL, 28.01},
                           {16 * kMi, Algorithm::kRing, Protocol::kLL128, 140.33},
                           {256 * kMi, Algorithm::kRing, Protocol::kSimple, 1524}});
  expect_choices(one_node(), {{16 * kMi, Algorithm::kNvls, Protocol::kSimple, 116.75},
                              {256 * kMi, Algorithm::kNvls, Protocol::kSimple, 1493}});
}

TEST(NcclModel, ChoosesOnFourNodes) {
  expect_choices(four_nodes(), {{8, Algorithm::kTree, Protocol::kLL, 35.20},
                                {64 * kKi, Algorithm::kTree, Protocol::kLL, 45.91},
                                {1 * kMi, Algorithm::kTree, Protocol::kLL128, 86.61},
                                {16 * kMi, Algorithm::kTree, Protocol::kLL128, 290.64},
                                {256 * kMi, Algorithm::kRing, Protocol::kLL128, 3088.8},
                                {1024 * kMi, Algorithm::kRing, Protocol::kSimple, 11231}});
}

TEST(NcclModel, SaysWhyARowIsImpossible) {
  EXPECT_EQ(row_of(four_nodes(), Algorithm::kNvls, Protocol::kSimple).reason,
            "no switch that reduces: needs NVSwitch and Hopper");
  EXPECT_EQ(row_of(one_node(), Algorithm::kNvlsTree, Protocol::kSimple).reason, "one node");
  EXPECT_EQ(row_of(one_node(), Algorithm::kNvls, Protocol::kLL).reason, "runs with Simple only");
  for (const Row& row : rows(one_node(), Collective::kBroadcast, 8))
    EXPECT_EQ(row.possible, row.algorithm == Algorithm::kRing);
}

TEST(NcclModel, OneRankHasNothingToChoose) {
  System alone = one_node();
  alone.ranks = 1;
  for (const Row& row : rows(alone, Collective::kAllReduce, 8)) EXPECT_FALSE(row.chosen);
}

// A channel of LL has 512 threads of 8 bytes for each of 8 ranks: 32 KiB; Simple 512 of 64 bytes.
TEST(NcclModel, LaunchesFewerChannelsForSmallMessages) {
  EXPECT_EQ(row_of(one_node(), Algorithm::kRing, Protocol::kLL, 8).channels, 1);
  EXPECT_EQ(row_of(one_node(), Algorithm::kRing, Protocol::kLL, 4 * 32 * kKi).channels, 4);
  EXPECT_EQ(row_of(one_node(), Algorithm::kRing, Protocol::kSimple, 8 * 32 * kKi).channels, 8);
  EXPECT_EQ(row_of(one_node(), Algorithm::kRing, Protocol::kSimple, 64 * kMi).channels, 16);
  EXPECT_EQ(row_of(one_node(), Algorithm::kNvls, Protocol::kSimple, 8).channels, 16);
}

// Expected values are computed from the formulas of each release's src/graph/tuning.cc.
TEST(NcclModel, OlderReleasesRateNvlsOtherwise) {
  System s = one_node();
  // Eight channels of 40 GB/s. 2.28 and later: 2 x 0.85 x 7/8 of that at the most, but no more than 40, times 8 ranks
  // of 14 steps. 2.27: 5/6.
  EXPECT_NEAR(row_of(s, Algorithm::kNvls, Protocol::kSimple).rate.gb(), 8 * 40 * 8.0 / 14, 0.01);
  s.release = 2707;
  EXPECT_NEAR(row_of(s, Algorithm::kNvls, Protocol::kSimple).rate.gb(), 8 * 40 * 5.0 / 6, 0.01);
}

TEST(NcclModel, OlderReleasesRateTreesThroughSwitchesOtherwise) {
  System s = four_nodes();
  s.nvls = {8, 40, 48};
  // 2.30: min(2 x 0.85 x 7/8 x 40, 48, 45.5) = 45.5 per channel, 32 of 62 steps; 25 us, and 2 x log2(4) hops of 20.9.
  Row row = row_of(s, Algorithm::kNvlsTree, Protocol::kSimple);
  EXPECT_NEAR(row.rate.gb(), 8 * 45.5 * 32 / 62, 0.01);
  EXPECT_NEAR(row.latency.us(), 25 + 4 * 20.9, 0.01);
  // 2.27: min(40, 48 / 2) and 5/6; hops of 14.
  s.release = 2707;
  row = row_of(s, Algorithm::kNvlsTree, Protocol::kSimple);
  EXPECT_NEAR(row.rate.gb(), 8 * 24 * 5.0 / 6, 0.01);
  EXPECT_NEAR(row.latency.us(), 25 + 4 * 14, 0.01);
}

TEST(NcclModel, BlackwellsChannelsCarryWhatTheirReleaseSays) {
  System s = four_nodes();
  s.compute_capability = 100;
  s.ring = s.tree = {8, 90, 90};
  s.nvls = {8, 90, 96};
  const auto rate = [&](int release, Algorithm a, Protocol p) {
    s.release = release;
    return row_of(s, a, p).rate.gb();
  };
  // Rings: 32 ranks of 62 steps; 90 x 0.92 = 82.8 would be found.
  const double around = 32.0 / 62;
  EXPECT_NEAR(rate(2707, Algorithm::kRing, Protocol::kLL128), 8 * 73.4 * around, 0.01);
  EXPECT_NEAR(rate(2809, Algorithm::kRing, Protocol::kLL128), 8 * 73.4 * around, 0.01);
  EXPECT_NEAR(rate(2907, Algorithm::kRing, Protocol::kLL128), 8 * 40 * around, 0.01);
  EXPECT_NEAR(rate(2707, Algorithm::kTree, Protocol::kSimple), 8 * 72 * 0.5, 0.01);
  EXPECT_NEAR(rate(2809, Algorithm::kTree, Protocol::kSimple), 8 * 24 * 0.5, 0.01);
  EXPECT_NEAR(rate(2907, Algorithm::kNvlsTree, Protocol::kSimple), 8 * 43.8 * around, 0.01);
  EXPECT_NEAR(rate(3007, Algorithm::kNvlsTree, Protocol::kSimple), 8 * 80 * around, 0.01);
}

}  // namespace
}  // namespace weft::tune::nccl
