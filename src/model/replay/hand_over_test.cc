#include "model/replay/hand_over.h"

#include <gtest/gtest.h>

#include <cmath>

#include "machine/machine.h"
#include "model/simulate/faults.h"
#include "plan/cost/reload.h"
#include "plan/cost/shipped.h"

namespace weft::replay {
namespace {

cost::MachineView machine(const char* name) { return *cost::shipped_view(topology::load_machine(name).value()); }

cost::MachineView machine_without(const char* name, const std::string& fault) {
  const auto faulted = simulate::apply_faults(topology::load_machine(name).value(), std::vector<std::string>{fault});
  EXPECT_TRUE(faulted) << faulted.error().message;
  return *cost::shipped_view(faulted->machine);
}

// Mooncake, docs/source/performance/sglang/sglang-benchmark-results-v1.md: Qwen3-235B-A22B on 8 H20 with tensor
// parallelism, 4 x 400 Gb/s per node. The model keeps 2 * 94 layers * 4 heads * 128 * 2 B = 192,512 B per token, twice
// because 8 ranks share 4 heads; each rank hands an eighth over.
constexpr Bytes kRankTokenBytes = Bytes{2} * 94 * 4 * 128 * 2 * 2 / 8;
struct Published {
  std::int64_t tokens;
  double ms;
};
constexpr Published kPublished[] = {{128, 2.07},   {256, 2.58},   {512, 2.98},    {1024, 3.96},  {2048, 6.43},
                                    {4096, 10.95}, {8192, 20.31}, {16384, 39.14}, {32768, 76.78}};

TEST(HandOver, PublishedTimesArePredictedFromSizeAndLinkWithinTenPercent) {
  const auto two = machine("h20-4x400g:nodes=2");
  for (const auto& [tokens, ms] : kPublished) {
    const auto answer = hand_over(two, {.ranks = 8, .rank_bytes = tokens * kRankTokenBytes, .stack = "mooncake"});
    ASSERT_TRUE(answer) << answer.error().message;
    const double predicted = answer->time.s() * 1e3;
    std::printf("%6ld tokens %8.0f MB  published %6.2f ms  predicted %6.2f ms  %+5.1f %%\n", static_cast<long>(tokens),
                static_cast<double>(tokens * kRankTokenBytes * 8) * 1e-6, ms, predicted, 100 * (predicted / ms - 1));
    EXPECT_LT(std::abs(predicted / ms - 1), 0.10) << tokens << " tokens: " << predicted << " ms, published " << ms;
  }
}

// Without the other system's software what is left is bytes over four ports of 50 GB/s, of which 94 % are payload.
TEST(HandOver, TwoGpusOfEachPortShareIt) {
  const auto two = machine("h20-4x400g:nodes=2");
  const Bytes bytes = Bytes{1} << 30;
  EXPECT_NEAR(hand_over(two, {.ranks = 8, .rank_bytes = bytes})->time.s(), 8.0 * bytes / (4 * 50e9 * 0.94), 2e-4);
}

TEST(HandOver, WhatTheMachineHasNotIsOneError) {
  const auto one = machine("dgx-h100");
  EXPECT_EQ(hand_over(one, {.ranks = 8, .rank_bytes = 1}).error().message,
            "a hand-over to the next node needs two nodes: ...:nodes=2,net=NETWORK");
  EXPECT_EQ(hand_over(one, {.ranks = 5, .within_node = true, .rank_bytes = 1}).error().message,
            "5 GPUs hand over to as many of their own node: the first node of this machine has 8");
  EXPECT_EQ(hand_over(machine("dgx-h100:nodes=2"), {.ranks = 1, .rank_bytes = 1, .stack = "x"}).error().message,
            "there is no stack 'x'; there are weft, mooncake");
}

// A GPU that is down, in whichever node, does not bring the others nearer to each other.
TEST(HandOver, AGpuThatIsDownChangesNothingForTheOthers) {
  const Bytes bytes = Bytes{1} << 30;
  const double sound = hand_over(machine("dgx-h100:nodes=4"), {.ranks = 1, .rank_bytes = bytes})->time.s();
  for (const char* fault : {"gpu:0/3=down", "gpu:1/7=down", "gpu:3/7=down"}) {
    const auto without = machine_without("dgx-h100:nodes=4", fault);
    const auto answer = hand_over(without, {.ranks = 1, .rank_bytes = bytes});
    ASSERT_TRUE(answer) << fault << ": " << answer.error().message;
    EXPECT_NEAR(answer->time.s(), sound, 0.01 * sound) << fault;
    EXPECT_TRUE(hand_over(without, {.ranks = 7, .rank_bytes = bytes})) << fault;
    EXPECT_EQ(hand_over(without, {.ranks = 8, .rank_bytes = bytes}).has_value(), std::string(fault) == "gpu:3/7=down");
    EXPECT_TRUE(cost::reload(without, {}, 7, bytes)) << fault;
  }
}

// A GPU at PCIe 5.0 x16, of which 76.2 % are payload.
TEST(Reload, TheSlowestOfPartsAndLinksBoundsIt) {
  const auto one = machine("dgx-h100");
  const Bytes bytes = Bytes{1} << 30;
  const auto alone = cost::reload(one, {}, 1, bytes);
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_NEAR(alone->time.s(), bytes / (63e9 * 0.762), 0.02 * alone->time.s()) << alone->bound;
  const auto drives = cost::reload(one, *cost::parse_tier("nvme-gen5*4"), 8, bytes);
  EXPECT_NEAR(drives->time.s(), 8.0 * bytes / (4 * 14e9), 1e-3);
  EXPECT_EQ(drives->bound, "nvme-gen5*4");
  const auto expander = cost::reload(one, *cost::parse_tier("cxl2-x8"), 1, bytes);
  EXPECT_NEAR(expander->time.s(), bytes / 31.508e9, 1e-3);
  // Four GPUs at 63 GB/s need less than their socket's memory; there two GPUs share a switch's uplink.
  EXPECT_EQ(cost::reload(one, {}, 8, bytes)->time, alone->time);
  const auto shared = machine("h20-4x400g");
  EXPECT_NEAR(cost::reload(shared, {}, 8, bytes)->time / cost::reload(shared, {}, 1, bytes)->time, 2, 0.01);
}

// A drive writes 6 GB/s of the 14 that it reads; an expander writes as it reads. Through host memory the first block of
// 1 MiB is complete in 75 us at 14 GB/s, and 16 drives pass twice their 224 GB/s through two sockets' memory.
TEST(Reload, WritesHaveTheirOwnRateAndABufferCostsABlock) {
  const auto one = machine("dgx-h100");
  const Bytes bytes = Bytes{1} << 30;
  const cost::Tier drive = *cost::parse_tier("nvme-gen5"), expander = *cost::parse_tier("cxl2-x8");
  EXPECT_NEAR(cost::reload(one, drive, 1, bytes, {.write = true})->time.s(), bytes / 6e9, 1e-3);
  EXPECT_EQ(cost::reload(one, expander, 1, bytes, {.write = true})->time, cost::reload(one, expander, 1, bytes)->time);
  const Duration direct = cost::reload(one, drive, 1, bytes)->time;
  const Duration bounced = cost::reload(one, drive, 1, bytes, {.bounce = true})->time;
  EXPECT_NEAR((bounced - direct).us(), 75 + 0.75, 1);
  // The memory's rate, halved, is less than what 64 drives have.
  const cost::Tier many = *cost::parse_tier("nvme-gen5*64");
  EXPECT_GT(cost::reload(one, many, 8, bytes, {.bounce = true})->time, cost::reload(one, many, 8, bytes)->time * 1.2);
}

TEST(Reload, UnknownTiersAreOneError) {
  EXPECT_EQ(cost::parse_tier("tape").error().message,
            "tier 'tape': dram, or a part of kind memory of `weft catalog`, e.g. nvme-gen5*4, cxl2-x8");
  EXPECT_FALSE(cost::parse_tier("nvme-gen5*0"));
  EXPECT_FALSE(cost::reload(machine("dgx-h100"), {}, 9, 1));
}

}  // namespace
}  // namespace weft::replay
