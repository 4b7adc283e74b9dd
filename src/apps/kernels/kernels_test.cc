#include "apps/kernels/kernels.h"

#include <gtest/gtest.h>

namespace weft::kernels {
namespace {

constexpr const char* kCards[] = {"H100-SXM5", "H200-SXM5", "B200-SXM6", "B300-SXM6", "GB200", "GB300"};

TEST(Kernels, EveryMeasuredCardLoadsWithBothSoftwares) {
  for (const char* card : kCards)
    for (const char* software : {"vllm", "trtllm"}) {
      const auto k = Kernels::load(card, software);
      ASSERT_TRUE(k) << k.error().message;
      EXPECT_EQ(k->measured_part(), card);
    }
}

TEST(Kernels, AGemmTakesNoLessThanItsPeakAndItsMemoryAllow) {
  // 8192 x 8192 x 8192 in 16 bits: 1.1e12 FLOP at 989.5e12 a second take 1.11 ms. One row of it reads 134 MB, 40 us
  // at 3.35 TB/s.
  const auto k = Kernels::load("H100-SXM5", "vllm");
  ASSERT_TRUE(k);
  const double large = k->gemm(Precision::kBf16, 8192, 8192, 8192), row = k->gemm(Precision::kBf16, 1, 8192, 8192);
  EXPECT_GT(large, 1.11e-3);
  EXPECT_LT(large, 2 * 1.11e-3);
  EXPECT_GT(row, 40e-6);
  EXPECT_LT(row, 2 * 40e-6);
}

TEST(Kernels, TimesGrowWithEverySizeOfTheWork) {
  for (const char* card : kCards) {
    const auto k = Kernels::load(card, "trtllm");
    ASSERT_TRUE(k);
    for (const Precision p : {Precision::kBf16, Precision::kFp8, Precision::kFp8Block, Precision::kNvfp4}) {
      double before = 0;
      for (double m = 1; m <= 16384; m *= 2) {
        const double t = k->gemm(p, m, 4096, 4096);
        EXPECT_GE(t, before * 0.999) << card << " " << name(p) << " " << m;
        before = t;
      }
      before = 0;
      for (double tokens = 1; tokens <= 16384; tokens *= 2) {
        const double t = k->experts(p, {.tokens = tokens, .hidden = 7168, .width = 2048, .experts = 256, .top_k = 8});
        EXPECT_GE(t, before) << card << " " << name(p) << " " << tokens;
        before = t;
      }
    }
    for (const int cache : {1, 2}) {
      double before = 0, latent = 0;
      for (double past = 128; past <= 131072; past *= 2) {
        const double t = k->attention({.count = 8, .past = past, .heads = 64, .kv_heads = 8}, cache);
        const double l = k->latent_attention({.count = 8, .past = past, .heads = 128}, cache);
        EXPECT_GT(t, before);
        EXPECT_GT(l, latent);
        before = t, latent = l;
      }
    }
  }
}

TEST(Kernels, AWindowBoundsWhatAttentionReads) {
  const auto k = Kernels::load("H200-SXM5", "vllm");
  ASSERT_TRUE(k);
  const Sequences all{.count = 16, .past = 65536, .heads = 64, .kv_heads = 8, .head_dim = 64};
  Sequences window = all;
  window.window = 128;
  EXPECT_LT(k->attention(window, 2), k->attention(all, 2) / 5);
  Sequences prompt{.count = 1, .tokens = 8192, .heads = 64, .kv_heads = 8, .head_dim = 64};
  Sequences near = prompt;
  near.window = 128;
  EXPECT_LT(k->attention(near, 2), k->attention(prompt, 2));
}

TEST(Kernels, ExpertsThatAreSpreadTakeLessOnEachGpu) {
  const auto k = Kernels::load("B200-SXM6", "trtllm");
  ASSERT_TRUE(k);
  const Experts one{.tokens = 256, .hidden = 7168, .width = 2048, .experts = 256, .top_k = 8};
  Experts spread = one;
  spread.expert_parallel = 8;
  EXPECT_LT(k->experts(Precision::kNvfp4, spread), k->experts(Precision::kNvfp4, one) / 2);
}

TEST(Kernels, CardsWithoutTablesTakeTheSharesOfTheNearestAndTheirOwnPeaks) {
  const auto a100 = Kernels::load("A100-SXM4-80GB", "vllm"), h100 = Kernels::load("H100-SXM5", "vllm");
  ASSERT_TRUE(a100) << a100.error().message;
  ASSERT_TRUE(h100);
  EXPECT_EQ(a100->measured_part(), "H100-SXM5");
  EXPECT_GT(a100->gemm(Precision::kBf16, 8192, 8192, 8192), 2 * h100->gemm(Precision::kBf16, 8192, 8192, 8192));
}

TEST(Kernels, AnUnknownCardIsRefusedByName) {
  const auto none = Kernels::load("H1000", "vllm");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("'H1000' is not in the catalogue"), std::string::npos) << none.error().message;
}

TEST(Kernels, EveryEntryHasASmallErrorOrSaysSo) {
  // Medians over all rows of serving sizes. vLLM's block-scaled GEMMs were timed with their launches from the host, so
  // the better of the two softwares' tables counts for GEMMs, and it is below a quarter everywhere.
  const auto entries = shipped_entries();
  ASSERT_TRUE(entries) << entries.error().message;
  EXPECT_GT(entries->size(), 100u);
  for (const Entry& e : *entries) {
    double best = e.constants.error;
    if (e.kind == Kind::kGemm)
      for (const Entry& o : *entries)
        if (o.card == e.card && o.kind == e.kind && o.precision == e.precision)
          best = std::min(best, o.constants.error);
    EXPECT_LT(best, 0.35) << e.card << " " << name(e.kind) << " " << e.software << " " << name(e.precision);
    EXPECT_GE(e.constants.rows, 40);
  }
}

}  // namespace
}  // namespace weft::kernels
