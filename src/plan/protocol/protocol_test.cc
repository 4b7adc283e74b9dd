#include "plan/protocol/protocol.h"

#include <gtest/gtest.h>

#include "plan/protocol/hop_costs.h"

namespace weft::protocol {
namespace {

TEST(Protocol, NamesAreReadInAnyCase) {
  EXPECT_EQ(parse_protocol("ll128").value(), Protocol::kLL128);
  EXPECT_EQ(parse_protocol("SIMPLE").value(), Protocol::kSimple);
}

TEST(Protocol, NamesAreReadBack) {
  for (const Protocol p : kProtocols) EXPECT_EQ(parse_protocol(traits(p).name).value(), p);
}

TEST(Protocol, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  const auto r = parse_protocol("LL256");
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(r.error().message, "unknown protocol 'LL256'; there are Simple, LL, LL64, LL128, Direct");
  EXPECT_NE(parse_protocol("Simpel").error().message.find("did you mean Simple?"), std::string::npos);
  EXPECT_EQ(r.error().blame, Blame::kInput);
}

TEST(Protocol, WireBytesAreWholeLines) {
  EXPECT_EQ(wire_bytes(Protocol::kSimple, 1000), 1000);  // no inline flags
  EXPECT_EQ(wire_bytes(Protocol::kLL, 5), 16);           // 2 lines of 4 data + 4 flag
  EXPECT_EQ(wire_bytes(Protocol::kLL64, 56), 64);        // exactly one line
  EXPECT_EQ(wire_bytes(Protocol::kLL64, 57), 128);
  EXPECT_EQ(wire_bytes(Protocol::kLL128, 121), 256);
  for (const Protocol p : kProtocols) EXPECT_EQ(wire_bytes(p, 0), 0);
}

TEST(Protocol, ASlotHoldsWholeLinesOfWholeElements) {
  for (const Protocol p : kProtocols) {
    const Traits& t = traits(p);
    EXPECT_EQ(t.slice_bytes % t.line_data, 0) << t.name;
    EXPECT_EQ(t.slice_bytes % 8, 0) << t.name;
    EXPECT_GE(t.slots, 1) << t.name;
  }
  // NCCL 2.30: a 4 MiB Simple buffer and a 4,915,200 B LL128 buffer, each in 8 steps, 15/16 of the latter data.
  EXPECT_EQ(traits(Protocol::kSimple).slice_bytes * 8, 4 << 20);
  EXPECT_EQ(wire_bytes(Protocol::kLL128, traits(Protocol::kLL128).slice_bytes) * 8, 4915200);
}

TEST(HopCosts, LinesBetweenFarCoresMoveByTheirTripAndStreamedSlotsDoNot) {
  const HopCosts shipped = HopCosts::shipped(HopCosts::Endpoint::kCpu);
  const HopCosts far = shipped.between_cores(Duration::nanoseconds(192));
  const HopCost& lines = *far.find("PHB", Protocol::kLL64);
  EXPECT_DOUBLE_EQ(lines.channel.value(), lines.lines * 64 / 192e-9);
  EXPECT_LT(lines.channel.value(), shipped.find("PHB", Protocol::kLL64)->channel.value());
  EXPECT_EQ(far.find("PHB", Protocol::kSimple)->channel.value(),
            shipped.find("PHB", Protocol::kSimple)->channel.value());
}

// bench/results/2026-11-22-shared-cores.md
TEST(HopCosts, RanksOfACoreTakeTurns) {
  const Duration wire = Duration::microseconds(0.1), turn = Duration::microseconds(1);
  const HopCost hop{.least = wire};
  const HopCosts costs = HopCosts::over_network(hop, {}, turn);
  EXPECT_EQ(costs.latency(hop, {}, 1), wire);
  EXPECT_EQ(costs.latency(hop, {}, 2), turn * 2);
  EXPECT_EQ(costs.latency(hop, {}, 4), turn * 4);
}

TEST(HopCosts, WhatPeersFetchIsPutThereAtTheRateOfSlots) {
  const HopCost slots{.channel = BytesPerSecond(13e9)}, network{.channel = BytesPerSecond(20e9)};
  EXPECT_EQ(HopCosts::over_network(network, {}, {}, &slots).handed_over().value(), 13e9);
}

TEST(HopCosts, OfMeasuredSlotsAreThoseOfTheFasterWay) {
  const HopCosts shipped = HopCosts::shipped(HopCosts::Endpoint::kCpu);
  EXPECT_TRUE(shipped.streams(1));
  EXPECT_FALSE(shipped.streams(2));
  const auto slots = [&](double plain, double streamed) {
    return shipped.with_slots(BytesPerSecond::gigabytes(plain), BytesPerSecond::gigabytes(streamed));
  };
  EXPECT_FALSE(slots(50, 20).streams(1));
  EXPECT_EQ(slots(50, 20).find("PHB", Protocol::kSimple)->channel.gb(), 50);
  EXPECT_EQ(slots(50, 20).handed_over().gb(), 50);
  for (const char* path : {"NET", "UCX", "UCX-NET"})
    EXPECT_EQ(slots(50, 20).find(path, Protocol::kSimple)->channel, shipped.find(path, Protocol::kSimple)->channel);
  EXPECT_TRUE(slots(8, 18).streams(1));
  EXPECT_EQ(slots(8, 18).find("PHB", Protocol::kSimple)->channel.gb(), 18);
  EXPECT_TRUE(slots(8, 18).streams(2));
  EXPECT_FALSE(slots(12, 18).streams(2));  // half of it stays in a core's caches
}

TEST(HopCosts, ACollectiveOfAGraphStartsAfterTheGraphsOwnLaunchAndTheHostDoesNothing) {
  const HopCosts shipped = HopCosts::shipped(HopCosts::Endpoint::kGpu);
  const HopCosts graph = shipped.with_launches(Duration::microseconds(4));
  for (const Protocol p : {Protocol::kSimple, Protocol::kLL, Protocol::kLL128}) {
    ASSERT_NE(shipped.launch(p), nullptr);
    EXPECT_NE(*shipped.launch(p), Duration::microseconds(4));
    EXPECT_EQ(*graph.launch(p), Duration::microseconds(4));
    EXPECT_EQ(graph.find("NVL", p)->added, shipped.find("NVL", p)->added);  // hops stay as they are
  }
  EXPECT_GT(shipped.host_launch(8), Duration());
  EXPECT_EQ(graph.host_launch(8), Duration());
}

}  // namespace
}  // namespace weft::protocol
