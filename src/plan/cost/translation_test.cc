#include "plan/cost/translation.h"

#include <gtest/gtest.h>

namespace weft::cost {
namespace {

const topology::Path kPath{
    .type = topology::PathType::kPhb, .hops = {}, .rate = BytesPerSecond(25e9), .latency = Duration::microseconds(1)};

TransferTimes times(const Translated& what, bool translates = true) {
  return transfer_times(kPath, what, translates).value();
}

TEST(Translation, WhatTheCacheCoversNeverMisses) {
  const TransferTimes t = times({.bytes = 65536, .working_set = 64 * 4096});
  EXPECT_EQ(t.miss, 0);
  EXPECT_EQ(t.p999.ps(), t.untranslated.ps());
  EXPECT_EQ(times({.bytes = 65536, .working_set = 1 << 30}, false).miss, 0);  // iommu=off or pt
}

// 4 KiB out of 8 MiB: 64 entries cover 256 KiB, a page misses with 1 - 1/32: all but some wait 330 ns.
// Out of 260 KiB it misses with 1/65 = 1.5 %: the median does not see that, the 99th percentile does.
TEST(Translation, RareMissesAreInTheTailAlone) {
  const TransferTimes often = times({.bytes = 4096, .working_set = 8 << 20});
  EXPECT_NEAR(often.miss, 1 - 1.0 / 32, 1e-9);
  EXPECT_NEAR((often.p50 - often.untranslated).ns(), 330, 2);
  const TransferTimes rare = times({.bytes = 4096, .working_set = 260 << 10});
  EXPECT_EQ(rare.p50.ps(), rare.untranslated.ps());
  EXPECT_NEAR((rare.p99 - rare.untranslated).ns(), 330, 2);
}

// Farshin et al., PeerJ CS 2023: at 200 Gb/s with pages of 4 KiB up to 20 % less; with huge pages nothing is lost.
TEST(Translation, ManyMissesCostLittleOfARateAndHugePagesNothing) {
  const Translated small{.bytes = 1 << 20, .working_set = Bytes{1} << 30};
  const TransferTimes t = times(small);
  EXPECT_GT(t.p50 / t.untranslated, 1.0);
  EXPECT_LT(t.p50 / t.untranslated, 1.25);
  EXPECT_EQ(times({.bytes = 1 << 20, .page = 2 << 20, .working_set = 128 << 20}).miss, 0);
}

TEST(Translation, AskingByAtsCostsAWayThereAndBack) {
  const Translated by_ats{.bytes = 4096, .working_set = Bytes{1} << 30, .ats = true};
  EXPECT_NEAR(times(by_ats).walk.us(), times({.bytes = 4096}).walk.us() + 2, 1e-6);
}

}  // namespace
}  // namespace weft::cost
