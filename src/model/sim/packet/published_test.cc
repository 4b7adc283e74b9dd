// Figures that others have published, by the packet level.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "model/sim/packet/test_network.h"

namespace weft::sim {
namespace {

using topology::DeviceKind;

constexpr double kWithin = 0.15;

// The testbed of Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, figure 2: four racks
// whose switches have two leaves each, two spines, every link 40 Gb/s.
class Testbed {
 public:
  static constexpr double kRate = 5e9;  // bytes per second
  static constexpr int kHosts = 5;      // per rack

  Testbed() {
    for (int host = 0; host < 4 * kHosts; ++host) machine_.add({.kind = DeviceKind::kGpu, .node = 0, .index = host});
    for (int s = 0; s < 4 + 4 + 2; ++s) machine_.add({.kind = DeviceKind::kNetworkSwitch, .model = "roce"});
    for (int host = 0; host < 4 * kHosts; ++host) connect(host, rack(host / kHosts));
    for (int r = 0; r < 4; ++r)
      for (int up = 0; up < 2; ++up) connect(rack(r), leaf(r / 2 * 2 + up));
    for (int l = 0; l < 4; ++l)
      for (int s = 0; s < 2; ++s) connect(leaf(l), spine(s));
  }
  const topology::Topology& machine() const { return machine_; }

  // The links from one host to another; `hash` chooses leaves and spine.
  std::vector<MaxMin::Resource> path(int from, int to, unsigned hash) const {
    const int up = leaf(from / kHosts / 2 * 2 + static_cast<int>(hash & 1)), s = spine(static_cast<int>(hash >> 1 & 1)),
              down = leaf(to / kHosts / 2 * 2 + static_cast<int>(hash >> 2 & 1));
    const int out = rack(from / kHosts), in = rack(to / kHosts);
    std::vector<int> devices = {from, out, up};
    if (from / kHosts / 2 != to / kHosts / 2) devices.insert(devices.end(), {s, down});
    devices.insert(devices.end(), {in, to});
    if (out == in) devices = {from, out, to};
    std::vector<MaxMin::Resource> links;
    for (std::size_t d = 1; d < devices.size(); ++d) links.push_back(link(devices[d - 1], devices[d]));
    return links;
  }

 private:
  static int rack(int r) { return 4 * kHosts + r; }
  static int leaf(int l) { return 4 * kHosts + 4 + l; }
  static int spine(int s) { return 4 * kHosts + 8 + s; }
  void connect(int a, int b) {
    machine_.connect({.kind = topology::LinkKind::kNetwork,
                      .a = a,
                      .b = b,
                      .rate_ab = BytesPerSecond(kRate),
                      .rate_ba = BytesPerSecond(kRate),
                      .latency = Duration::nanoseconds(500)});
  }
  MaxMin::Resource link(int from, int to) const {
    for (std::size_t l = 0; l < machine_.links().size(); ++l) {
      const topology::Link& link = machine_.links()[l];
      if (link.a == from && link.b == to) return static_cast<MaxMin::Resource>(2 * l);
      if (link.b == from && link.a == to) return static_cast<MaxMin::Resource>(2 * l + 1);
    }
    return -1;
  }
  topology::Topology machine_;
};

double gbps(Bytes bytes, Duration time) { return static_cast<double>(bytes) * 8e-9 / time.s(); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Host 0 of the first rack sends to the second rack while four others of the first rack, and some of the third, send to
// one host of the fourth. The median over draws of routes, as the switches' hashes make them, of what host 0 gets. The
// paper calls the median case that in which two of the four share host 0's uplink; only such draws count.
double victim_gbps(int third_rack, Bytes bytes, const PacketOptions& options) {
  const Testbed testbed;
  constexpr Duration kStep = Duration::microseconds(1000);
  constexpr int kDraws = 25;
  std::mt19937 random(2015);
  std::vector<double> rates;
  while (rates.size() < kDraws) {
    std::array<unsigned, 7> hash{};
    for (unsigned& h : hash) h = static_cast<unsigned>(random());
    const auto shares = [&](unsigned h) { return (h & 1) == (hash[0] & 1); };
    if (std::count_if(hash.begin() + 1, hash.begin() + 5, shares) != 2) continue;
    TestNetwork net(testbed.machine(), 4096, options);
    std::size_t flows = 0;
    const auto send = [&](int from, int to, Bytes bytes) {
      return net.send(net.path(testbed.path(from, to, hash[flows++])), bytes, Testbed::kRate);
    };
    const auto victim = static_cast<std::size_t>(send(0, Testbed::kHosts, bytes));
    for (int host = 1; host <= 4; ++host) send(host, 3 * Testbed::kHosts, 4 * bytes);
    for (int host = 0; host < third_rack; ++host) send(2 * Testbed::kHosts + host, 3 * Testbed::kHosts, 4 * bytes);
    for (Duration until = kStep; net.ends[victim] == Duration(); until += kStep) net.run(until);
    EXPECT_EQ(net.statistics.lost, 0);
    rates.push_back(gbps(bytes, net.ends[victim]));
  }
  return median(rates);
}

// Zhu et al., figure 4b: 10 Gb/s with no sender in the third rack, and 4.5 with two, though they share no link with
// host 0: pauses go back from switch to switch and block the packets that wait behind them. A leaf serves its input
// ports in turn, so that the third rack takes a third of a leaf whose two spines both send, and half of it where one
// does.
TEST(Published, PauseBlocksAVictimOfAnIncast) {
  const PacketOptions pause{.congestion_control = false};
  constexpr Bytes kLong = Bytes{32} << 20;  // what goes before the first pause counts little, as of the paper's 250 MB
  const double none = victim_gbps(0, kLong, pause), two = victim_gbps(2, kLong, pause);
  fmt::print("victim of an incast, PFC alone: {:.1f} Gb/s (10), two more senders {:.1f} (4.5)\n", none, two);
  EXPECT_NEAR(none / 10, 1, kWithin);
  EXPECT_NEAR(two / 4.5, 1, kWithin);
}

// Zhu et al., figure 9: with DCQCN more senders of the third rack cost the victim nothing.
TEST(Published, DcqcnProtectsTheVictim) {
  constexpr Bytes kShort = Bytes{8} << 20;
  const double none = victim_gbps(0, kShort, {}), two = victim_gbps(2, kShort, {});
  fmt::print("victim of an incast, DCQCN: {:.1f} Gb/s, two more senders {:.1f}\n", none, two);
  EXPECT_GT(two, none * (1 - kWithin));
}

// Zhu et al., section 2.2 and figure 3: three hosts of one rack and a host of the receiver's own rack send to it. With
// PFC alone the switch serves its ports in turn: where the three come by one port, the one host gets 20 Gb/s and they
// share the other 20.
TEST(Published, PauseIsUnfairToThoseThatShareAPort) {
  const Testbed testbed;
  constexpr Bytes kBytes = Bytes{64} << 20;
  TestNetwork net(testbed.machine(), 4096, {.congestion_control = false});
  std::vector<double> pause;
  for (int host = 0; host < 4; ++host)
    net.send(net.path(testbed.path(host < 3 ? host : 3 * Testbed::kHosts + 1, 3 * Testbed::kHosts, 0)),
             host < 3 ? kBytes : 3 * kBytes, Testbed::kRate);
  ASSERT_TRUE(net.run());
  for (std::size_t host = 0; host < 4; ++host) pause.push_back(gbps(host < 3 ? kBytes : 3 * kBytes, net.ends[host]));
  fmt::print("PFC alone, three hosts on one port, one on another: {:.1f} {:.1f} {:.1f} {:.1f} Gb/s (6.7 6.7 6.7 20)\n",
             pause[0], pause[1], pause[2], pause[3]);
  for (int host = 0; host < 3; ++host) EXPECT_NEAR(pause[static_cast<std::size_t>(host)] / (20.0 / 3), 1, kWithin);
  EXPECT_NEAR(pause[3] / 20, 1, kWithin);
}

// Choudhury and Hahne, Dynamic queue length thresholds for shared-memory packet switches, IEEE/ACM Transactions on
// Networking 6(2), 1998, equation 3: n queues that all overflow have alpha B / (1 + alpha n) each.
TEST(Published, QueuesThatOverflowShareABuffer) {
  constexpr Bytes kRoom = 100 * TestNetwork::kPayload;  // per link
  for (const double alpha : {0.5, 1.0, 2.0}) {
    for (const int queues : {1, 2, 4}) {
      constexpr int kPerQueue = 4;
      const int hosts = queues * (kPerQueue + 1);
      TestNetwork net(hosts, "roce", {.pause = false, .congestion_control = false, .alpha = alpha, .buffer = kRoom});
      for (int q = 0; q < queues; ++q)
        for (int s = 0; s < kPerQueue; ++s) {
          const int from = queues + q * kPerQueue + s;
          net.send(net.path({2 * from, 2 * q + 1}), 2000 * TestNetwork::kPayload);
        }
      EXPECT_FALSE(net.run(Duration::microseconds(1500)));  // all still send
      const double buffer = static_cast<double>(kRoom) * hosts, expected = alpha * buffer / (1 + alpha * queues);
      fmt::print("alpha {}, {} queues: {:.0f} packets ({:.0f})\n", alpha, queues,
                 net.statistics.longest / TestNetwork::kPayload, expected / TestNetwork::kPayload);
      EXPECT_NEAR(net.statistics.longest / expected, 1, kWithin) << alpha << ", " << queues;
    }
  }
}

// Bertsekas and Gallager, Data Networks, 2nd edition, 1992, section 2.4: go-back-N with a window that never closes
// sends 1 + W p / (1 - p) packets for each that arrives, W packets from one to when its loss is known; selective repeat
// 1 / (1 - p).
TEST(Published, GoBackNLosesAWindowPerLostPacket) {
  constexpr int kPackets = 40000;
  const auto efficiency = [](double loss, Delivery::Recovery recovery) {
    // One link that may lose packets; 8000 bits a packet.
    const double bit = -std::expm1(std::log1p(-loss) / (8.0 * TestNetwork::kPayload));
    TestNetwork net(3, "roce",
                    {.congestion_control = false,
                     .recovery = recovery,
                     .timeout = Duration::microseconds(20),
                     .bit_error_rate = bit,
                     .buffer = 1000 * TestNetwork::kPayload});
    net.send(net.path({0, 3}), kPackets * TestNetwork::kPayload);
    EXPECT_TRUE(net.run());
    return kPackets / net.ends[0].us();
  };
  for (const double loss : {1e-4, 1e-3, 1e-2}) {
    const double back = efficiency(loss, Delivery::Recovery::kGoBackN),
                 selective = efficiency(loss, Delivery::Recovery::kSelective);
    // Two links, of which each loses. After a lost packet 1 us of the next one, stored and sent on by the switch for
    // another, and a round trip of 2 us; then the packet that the adapter has ready.
    constexpr double kWindow = 6;
    const double p = 1 - (1 - loss) * (1 - loss);
    const double expected = 1 / (1 + kWindow * p / (1 - p));
    fmt::print("loss {}: go-back-N {:.3f} ({:.3f}), selective {:.3f} ({:.3f})\n", loss, back, expected, selective,
               1 - p);
    EXPECT_NEAR(back / expected, 1, kWithin) << loss;
    EXPECT_NEAR(selective / (1 - p), 1, kWithin) << loss;
  }
}

}  // namespace
}  // namespace weft::sim
