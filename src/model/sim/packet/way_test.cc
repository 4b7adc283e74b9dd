#include "model/sim/packet/way.h"

#include <gtest/gtest.h>

namespace weft::sim {
namespace {

using topology::DeviceKind, topology::LinkKind;

// Hosts 0 to 3, leaves 4 and 5, spine 6; links in this order, each from below to above.
topology::Topology two_levels() {
  topology::Topology machine;
  for (int h = 0; h < 4; ++h) machine.add({.kind = DeviceKind::kNic});
  for (int s = 0; s < 3; ++s) machine.add({.kind = DeviceKind::kNetworkSwitch, .model = "ib"});
  for (const auto& [below, above] : {std::pair(0, 4), {1, 4}, {2, 5}, {3, 5}, {4, 6}, {5, 6}})
    machine.connect({.kind = LinkKind::kNetwork,
                     .a = below,
                     .b = above,
                     .rate_ab = BytesPerSecond(1e9),
                     .rate_ba = BytesPerSecond(1e9),
                     .latency = Duration::nanoseconds(100)});
  return machine;
}

MaxMin::Resource up(int link) { return 2 * link; }
MaxMin::Resource down(int link) { return 2 * link + 1; }

Way way_over(std::vector<MaxMin::Use> links) {
  const topology::Topology machine = two_levels();
  const PacketRules rules = PacketRules::shipped();
  const PacketOptions options;
  return Ways(machine, rules, options).way(links);
}

TEST(Way, OfAPairIsAChain) {
  const Way way = way_over({{up(0)}, {up(4)}, {down(5)}, {down(2)}});
  for (std::size_t h = 0; h < 4; ++h) EXPECT_EQ(way.hops[h].before, h > 0) << h;
  EXPECT_EQ(way.ends, 1);
  EXPECT_EQ(way.latency.ns(), 400);
  EXPECT_EQ(way.payload, 4096);
}

TEST(Way, OfASumGoesUpToTheSpineAndDownToAll) {
  // From the leaves, which have their hosts' sums, in the order of the links.
  const Way way = way_over({{down(0)}, {down(1)}, {down(2)}, {down(3)}, {up(4)}, {down(4)}, {up(5)}, {down(5)}});
  const auto before = [&](std::size_t hop) { return way.hops[hop].before; };
  EXPECT_EQ(before(4), 0);  // the leaves send …
  EXPECT_EQ(before(6), 0);
  EXPECT_EQ(before(5), 2);  // … the spine sums both, for either leaf …
  EXPECT_EQ(before(7), 2);
  for (std::size_t host = 0; host < 4; ++host) EXPECT_EQ(before(host), 1) << host;  // … which copies
  EXPECT_EQ(way.ends, 4);
  EXPECT_EQ(way.latency.ns(), 300);
}

TEST(Way, AFullPacketHasItsHeaderInTheEfficiencyAndASmallOnePaysForIt) {
  const Way way = way_over({{up(0)}});  // 4096 B and 26 B around them
  EXPECT_NEAR(way.bytes_on(way.hops[0], 4096, 1.25), 4096 * 1.25, 1e-9);
  EXPECT_NEAR(way.bytes_on(way.hops[0], 100, 1.25), 126 * 1.25 * 4096 / (4096 + 26), 1e-9);
}

}  // namespace
}  // namespace weft::sim
