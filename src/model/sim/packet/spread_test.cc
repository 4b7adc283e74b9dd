// Packets that are spread over all shortest ways of a network, and loss in per cent.
#include <gtest/gtest.h>

#include <array>

#include "model/sim/packet/shortest_ways.h"
#include "model/sim/packet/test_network.h"

namespace weft::sim {
namespace {

using topology::DeviceKind;

constexpr int kHosts = 4, kSpines = 4;

// Two leaves of four hosts, four spines, every link 1 GB/s: no oversubscription. Hosts 0 to 3 at leaf 8, 4 to 7 at 9.
// Spine 0 may be slower.
topology::Topology two_leaves(double slow = TestNetwork::kRate) {
  topology::Topology t;
  for (int h = 0; h < 2 * kHosts; ++h) t.add({.kind = DeviceKind::kGpu, .node = h, .index = 0});
  for (int s = 0; s < 2 + kSpines; ++s) t.add({.kind = DeviceKind::kNetworkSwitch, .index = s, .model = "roce"});
  const auto connect = [&](int a, int b) {
    const double rate = b == 2 * kHosts + 2 ? slow : TestNetwork::kRate;
    t.connect({.kind = topology::LinkKind::kNetwork,
               .a = a,
               .b = b,
               .rate_ab = BytesPerSecond(rate),
               .rate_ba = BytesPerSecond(rate),
               .latency = TestNetwork::kLatency});
  };
  for (int h = 0; h < 2 * kHosts; ++h) connect(h, 2 * kHosts + h / kHosts);
  for (int leaf = 0; leaf < 2; ++leaf)
    for (int spine = 0; spine < kSpines; ++spine) connect(2 * kHosts + leaf, 2 * kHosts + 2 + spine);
  return t;
}

// From host `h` to host `h + 4` by one spine; links are numbered in the order of connect().
std::vector<MaxMin::Resource> by_spine(int h, int spine) {
  const int up = 2 * kHosts + spine, down = 2 * kHosts + kSpines + spine;
  return {2 * h, 2 * up, 2 * down + 1, 2 * (h + kHosts) + 1};
}

// All four hosts of a leaf send to the other leaf, and a hash has put them all on spine 0.
Duration collided(const PacketOptions& options, PacketStatistics* statistics = nullptr) {
  TestNetwork net(two_leaves(), 1000, options);
  for (int h = 0; h < kHosts; ++h) net.send(net.path(by_spine(h, 0)), 1'000'000);
  EXPECT_TRUE(net.run());
  if (statistics != nullptr) *statistics = net.statistics;
  return *std::ranges::max_element(net.ends);
}

TEST(Spread, AllShortestWaysAreThoseOfAllSpines) {
  const topology::Topology t = two_leaves();
  std::vector<MaxMin::Use> path;
  for (const MaxMin::Resource link : by_spine(1, 2)) path.push_back({link});
  const auto ways = shortest_ways(t, path, 64);
  ASSERT_EQ(ways.size(), 4U);
  EXPECT_EQ(ways[0][1].resource, by_spine(1, 2)[1]);
  for (const auto& way : ways) {
    ASSERT_EQ(way.size(), 4U);
    EXPECT_EQ(way.front().resource, 2);         // host 1 up
    EXPECT_EQ(way.back().resource, 2 * 5 + 1);  // host 5 down
  }
  EXPECT_EQ(shortest_ways(t, path, 1).size(), 1U);
}

TEST(Spread, SprayingUndoesACollisionOfHashes) {
  // 4 MB over one spine of 1 GB/s are 4 ms; over four spines each host has its own 1 GB/s: 1 ms.
  const Duration hashed = collided({.congestion_control = false});
  PacketStatistics sprayed;
  const Duration spray = collided({.congestion_control = false, .spread = PacketOptions::Spread::kSpray}, &sprayed);
  const Duration adaptive = collided({.congestion_control = false, .spread = PacketOptions::Spread::kAdaptive});
  EXPECT_NEAR(hashed.us(), 4000, 40);
  EXPECT_NEAR(spray.us(), 1000, 50);
  EXPECT_NEAR(adaptive.us(), 1000, 50);
  EXPECT_EQ(sprayed.discarded, 0);
}

// A spine with a tenth of the rate: packets over it are overtaken. Turns go on sending over it, and 1 MB needs as long
// as a quarter of it over 0.1 GB/s, 2.5 ms; adaptive packets avoid it; receivers that go back N discard nearly
// everything.
TEST(Spread, ASlowSpineMakesPacketsOvertakeEachOther) {
  const auto across = [](const PacketOptions& options, PacketStatistics& statistics) {
    TestNetwork net(two_leaves(TestNetwork::kRate / 10), 1000, options);
    net.send(net.path(by_spine(0, 1)), 1'000'000);
    EXPECT_TRUE(net.run());
    statistics = net.statistics;
    return net.ends[0];
  };
  PacketStatistics in_turn, adaptive, in_order;
  PacketOptions options{.congestion_control = false, .spread = PacketOptions::Spread::kSpray, .reorder = 1000};
  const Duration spray = across(options, in_turn);
  options.spread = PacketOptions::Spread::kAdaptive;
  const Duration avoiding = across(options, adaptive);
  options.spread = PacketOptions::Spread::kSpray;
  options.recovery_given = true;  // go-back-N, asked for
  const Duration again = across(options, in_order);
  EXPECT_NEAR(spray.us(), 2500, 50);
  EXPECT_GT(in_turn.reordered, 200);
  EXPECT_LT(in_turn.discarded, 100);  // copies of what the last packet had overtaken
  EXPECT_LT(avoiding.us(), 1300);
  EXPECT_GT(in_order.discarded, 1000);
  EXPECT_GT(again.us(), 2 * spray.us());
}

TEST(Spread, LossIsAPartOfThePackets) {
  // 4000 packets over 4 links each, 1 % lost on each: 160, as many as 4 standard deviations of 12.6 around that.
  PacketOptions options{.congestion_control = false, .loss = 0.01, .recovery_given = true};
  options.recovery = Delivery::Recovery::kSelective;
  PacketStatistics statistics;
  collided(options, &statistics);
  EXPECT_NEAR(static_cast<double>(statistics.lost), 160, 60);
}

TEST(Spread, OptionsSayWhatTheyTake) {
  EXPECT_EQ(PacketOptions::parse("spread=adaptive")->spread, PacketOptions::Spread::kAdaptive);
  EXPECT_DOUBLE_EQ(PacketOptions::parse("loss=0.1%")->loss, 0.001);
  for (const char* bad : {"loss=0.1", "loss=50%", "loss=-1%", "spread=none", "reorder=64", "reorder=-1",
                          "spread=spray,recovery=go-back-n,reorder=8"})
    EXPECT_FALSE(PacketOptions::parse(bad)) << bad;
}

TEST(Spread, ALatePacketIsReportedWhenTheWindowHasPassed) {
  Delivery delivery(10, Delivery::Recovery::kSelective, 3);
  while (delivery.next()) {
  }
  for (const int packet : {0, 2, 3, 4}) EXPECT_FALSE(delivery.arrives(packet).gap) << packet;
  const auto late = delivery.arrives(5).gap;  // 1 is more than 3 behind
  ASSERT_TRUE(late);
  EXPECT_EQ(late->from, 1);
  EXPECT_EQ(late->to, 2);
}

}  // namespace
}  // namespace weft::sim
