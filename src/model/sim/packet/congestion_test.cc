#include <gtest/gtest.h>

#include "model/sim/packet/test_network.h"

namespace weft::sim {
namespace {

constexpr int kSenders = 8;
constexpr Duration kBuffer = Duration::picoseconds(50'000'000);  // 50 us of a link: 50 packets

// Eight hosts send to one; the first also sends to a host that nobody else wants: the victim.
struct Incast {
  PacketStatistics statistics;
  double all_us = 0, victim_us = 0;
};

Incast incast(bool pause, bool congestion_control, int packets) {
  TestNetwork net(kSenders + 2, "roce", {.pause = pause, .congestion_control = congestion_control}, kBuffer);
  const auto between = [&](int from, int to) { return net.path({2 * from, 2 * to + 1}); };
  for (int host = 0; host < kSenders; ++host) net.send(between(host, kSenders), packets * TestNetwork::kPayload);
  const int victim = net.send(between(0, kSenders + 1), packets / 4 * TestNetwork::kPayload);
  EXPECT_TRUE(net.run());
  Incast result{.statistics = net.statistics, .victim_us = net.ends[static_cast<std::size_t>(victim)].us()};
  for (const Duration end : net.ends) result.all_us = std::max(result.all_us, end.us());
  return result;
}

TEST(Incast, WithPauseNothingIsLostAndQueuesAreBounded) {
  const Incast with = incast(true, false, 1000);
  EXPECT_EQ(with.statistics.lost, 0);
  EXPECT_GT(with.statistics.pauses, 0);
  // The one output may have what all links bring into the switch's buffer, and headroom for what is under way.
  EXPECT_LE(with.statistics.longest, (kSenders + 2) * kBuffer.s() * TestNetwork::kRate);
  // The output is never idle: 8 x 1000 packets of 1 us.
  EXPECT_NEAR(with.all_us, 8000, 80);
}

TEST(Incast, WithoutPausePacketsAreLostAndSentAgain) {
  const Incast without = incast(false, false, 1000);
  EXPECT_GT(without.statistics.lost, 100);
  EXPECT_EQ(without.statistics.pauses, 0);
  EXPECT_GE(without.all_us, 8000);
}

TEST(Incast, ABufferSmallerThanAPacketStillTakesOne) {
  for (const bool pause : {true, false}) {
    TestNetwork net(3, "roce", {.pause = pause, .congestion_control = false, .buffer = 1});
    for (const int from : {0, 1}) net.send(net.path({2 * from, 2 * 2 + 1}), 20 * TestNetwork::kPayload);
    EXPECT_TRUE(net.run());
  }
}

TEST(Incast, PauseMakesAVictimThatCongestionControlHelps) {
  // Alone with its share of the first host's link it takes 1000 packets x 8/7. Paused like its neighbour it goes at the
  // neighbour's rate, an eighth. DCQCN slows the neighbour down instead.
  constexpr int kPackets = 4000;
  const Incast pause = incast(true, false, kPackets), both = incast(true, true, kPackets);
  EXPECT_GT(pause.victim_us, 0.8 * 8 * kPackets / 4);
  EXPECT_LT(both.victim_us, 0.5 * pause.victim_us);
  EXPECT_LT(both.statistics.pauses, pause.statistics.pauses);
  EXPECT_GT(both.statistics.marked, 0);
  EXPECT_EQ(both.statistics.lost, 0);
}

TEST(Incast, CongestionControlAloneLosesLess) {
  EXPECT_LT(incast(false, true, 4000).statistics.lost, incast(false, false, 4000).statistics.lost / 2);
}

TEST(Dcqcn, ANoticeHalvesAndFastRecoveryComesBack) {
  const CongestionRules rules = PacketRules::shipped().congestion_of("2015");
  Dcqcn control(rules, 1000);
  EXPECT_FALSE(control.throttled());
  control.notice(Duration());  // alpha is 1 at first
  EXPECT_DOUBLE_EQ(control.rate(), 500);
  for (int step = 1; step <= rules.fast_steps; ++step) {
    control.timer_expired(rules.timer * step);  // halfway to the rate before the notice
    EXPECT_NEAR(control.rate(), 1000 - 500 / std::pow(2, step), 1e-9);
  }
}

TEST(Dcqcn, ALongQuietTimeMakesTheNextCutSmaller) {
  const CongestionRules rules = PacketRules::shipped().congestion_of("2015");
  Dcqcn control(rules, 1000);
  control.notice(Duration());
  for (int step = 1; step <= 300; ++step) control.timer_expired(rules.timer * step);
  EXPECT_FALSE(control.throttled());
  control.notice(rules.timer * 300);  // alpha is (1 - 1/256)^300 = 0.31 and a little more
  EXPECT_NEAR(control.rate(), 1000 * (1 - 0.31 / 2), 5);
}

}  // namespace
}  // namespace weft::sim
