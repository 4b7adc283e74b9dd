#include "model/sim/packet/packets.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/sim/packet/test_network.h"

namespace weft::sim {
namespace {

// A packet of 1000 B takes 1 us over a link (its header is part of that, see Way); its header alone 0.1 us.
constexpr double kPacket = 1, kHeader = 0.1, kRoundTrip = 1;  // us

int link_up(int host) { return 2 * host; }
int link_down(int host) { return 2 * host + 1; }
MaxMin::Path between(TestNetwork& net, int from, int to) { return net.path({link_up(from), link_down(to)}); }

TEST(Packets, CutThroughAddsAHeaderPerSwitch) {
  TestNetwork net(2, "ib", {});
  net.send(between(net, 0, 1), 10 * TestNetwork::kPayload);
  ASSERT_TRUE(net.run());
  EXPECT_NEAR(net.ends[0].us(), 10 * kPacket + kHeader, 1e-6);
  EXPECT_EQ(net.statistics.sent, 20);
}

TEST(Packets, StoreAndForwardAddsAPacketPerSwitch) {
  TestNetwork net(2, "ib", {.switching = PacketOptions::Switching::kStore});
  net.send(between(net, 0, 1), 10 * TestNetwork::kPayload);
  ASSERT_TRUE(net.run());
  EXPECT_NEAR(net.ends[0].us(), 10 * kPacket + kPacket, 1e-6);
}

TEST(Packets, TheLastPacketIsSmallerButHasAWholeHeader) {
  // 1000 B in a full packet take 1 us with 100 B of header: 1/1.1 ns per byte, so 500 + 100 B take 0.545 us.
  TestNetwork net(2, "", {});
  net.send(net.path({0}), 1500);
  ASSERT_TRUE(net.run());
  EXPECT_NEAR(net.ends[0].us(), kPacket + 0.6 / 1.1, 1e-5);
}

TEST(Packets, CreditsBoundTheRateByTheRoundTrip) {
  // Room for k packets: k per time that one takes and its credit needs to come back, at the most one after the other.
  for (const int k : {1, 2, 3, 8}) {
    TestNetwork net(2, "", {.buffer = k * TestNetwork::kPayload});
    constexpr int kPackets = 1000;
    net.send(net.path({0}), kPackets * TestNetwork::kPayload);
    ASSERT_TRUE(net.run());
    const double each = std::max(kPacket, (kPacket + kRoundTrip) / k);
    EXPECT_NEAR(net.ends[0].us() / (kPackets * each), 1, 0.01) << k;
  }
}

TEST(Packets, ASenderGoesNoFasterThanItsCap) {
  TestNetwork net(2, "ib", {});
  net.send(between(net, 0, 1), 100 * TestNetwork::kPayload, TestNetwork::kRate / 4);
  ASSERT_TRUE(net.run());
  EXPECT_NEAR(net.ends[0].us(), 400 * kPacket, 1);
}

TEST(Packets, FlowsOfOneOutputTakeTurns) {
  TestNetwork net(4, "ib", {});
  for (int host = 0; host < 3; ++host) net.send(between(net, host, 3), 100 * TestNetwork::kPayload);
  ASSERT_TRUE(net.run());
  for (int host = 0; host < 3; ++host) EXPECT_NEAR(net.ends[static_cast<std::size_t>(host)].us(), 300, 3.5);
}

TEST(Packets, ClassesShareByWeight) {
  // 100 packets each, three to one: the first class is through after 400 / 3 packet times, the second after 200.
  TestNetwork net(3, "ib", {.weights = {3, 1}});
  net.send(between(net, 0, 2), 100 * TestNetwork::kPayload, TestNetwork::kRate, 0);
  net.send(between(net, 1, 2), 100 * TestNetwork::kPayload, TestNetwork::kRate, 1);
  ASSERT_TRUE(net.run());
  EXPECT_NEAR(net.ends[0].us(), 400 / 3.0, 3);
  EXPECT_NEAR(net.ends[1].us(), 200, 3);
}

TEST(Packets, ASwitchCopiesAndSums) {
  constexpr int kPackets = 50;
  TestNetwork copies(4, "ib", {});
  copies.send(copies.path({link_up(0), link_down(0), link_down(1), link_down(2), link_down(3)}),
              kPackets * TestNetwork::kPayload);
  ASSERT_TRUE(copies.run());
  EXPECT_EQ(copies.statistics.sent, kPackets * (1 + 4));
  EXPECT_NEAR(copies.ends[0].us(), kPackets * kPacket + kHeader, 1e-6);

  TestNetwork sums(4, "ib", {});
  sums.send(sums.path({link_up(0), link_up(1), link_up(2), link_up(3), link_down(2)}),
            kPackets * TestNetwork::kPayload);
  ASSERT_TRUE(sums.run());
  EXPECT_EQ(sums.statistics.sent, kPackets * (4 + 1));
  EXPECT_NEAR(sums.ends[0].us(), kPackets * kPacket + kHeader, 1e-6);
}

// Every host sends single packets to random other hosts, as fast as it can; how busy the switch's outputs are on
// average while all hosts still have some.
double saturated_throughput(int hosts, bool virtual_queues) {
  constexpr int kPackets = 1000;
  TestNetwork net(hosts, "ib", {.virtual_queues = virtual_queues, .buffer = 50 * TestNetwork::kPayload});
  std::vector<MaxMin::Path> paths;
  for (int i = 0; i < hosts * hosts; ++i) paths.push_back(between(net, i / hosts, i % hosts));
  std::mt19937_64 random(7);
  for (int i = 0; i < kPackets; ++i)
    for (int host = 0; host < hosts; ++host)
      net.send(paths[static_cast<std::size_t>(host * hosts) + random() % hosts], TestNetwork::kPayload);
  EXPECT_TRUE(net.run());
  const auto end_of = [&](double part) {
    return net.ends[static_cast<std::size_t>(net.order[static_cast<std::size_t>(part * hosts * kPackets)])].us();
  };
  return 0.5 * kPackets * kPacket / (end_of(0.7) - end_of(0.2));
}

TEST(Packets, WithoutVirtualQueuesTheFirstPacketBlocksTheOthers) {
  // Karol, Hluchyj and Morgan, Input versus output queueing on a space-division packet switch, IEEE Transactions on
  // Communications 35(12), 1987, table I; 2 - sqrt(2) for many ports.
  for (const auto& [ports, throughput] : {std::pair(2, 0.75), {4, 0.6553}, {8, 0.6184}, {64, 2 - std::sqrt(2)}})
    EXPECT_NEAR(saturated_throughput(ports, false), throughput, 0.015) << ports;
}

TEST(Packets, WithVirtualQueuesOutputsAreNearlyAlwaysBusy) {
  for (const int ports : {2, 8, 32}) EXPECT_GT(saturated_throughput(ports, true), 0.95) << ports;
}

TEST(Packets, RetriesCostARoundTripEach) {
  // 8000 bits at 1e-5: corrupt with q = 1 - (1 - 1e-5)^8000 = 0.0769. Sent 1 / (1 - q) times, and every time but the
  // last a round trip goes by until the sender knows.
  constexpr int kPackets = 20000;
  const double q = 1 - std::pow(1 - 1e-5, 8000), again = q / (1 - q);
  TestNetwork net(2, "", {.bit_error_rate = 1e-5, .seed = 3});
  net.send(net.path({0}), kPackets * TestNetwork::kPayload);
  ASSERT_TRUE(net.run());
  EXPECT_NEAR(net.ends[0].us() / (kPackets * (kPacket + again * (kPacket + kRoundTrip))), 1, 0.02);
  EXPECT_NEAR(static_cast<double>(net.statistics.retried) / kPackets, again, 0.01);
  EXPECT_EQ(net.statistics.lost, 0);
}

TEST(Packets, DependOnTheirSeedOnly) {
  const auto end_with = [](std::uint64_t seed) {
    TestNetwork net(2, "", {.bit_error_rate = 1e-5, .seed = seed});
    net.send(net.path({0}), 1000 * TestNetwork::kPayload);
    EXPECT_TRUE(net.run());
    return net.ends[0].ps();
  };
  EXPECT_EQ(end_with(1), end_with(1));
  EXPECT_NE(end_with(1), end_with(2));
}

}  // namespace
}  // namespace weft::sim
