#include "plan/tune/nccl/symmetric.h"

#include <gtest/gtest.h>

#include "plan/tune/nccl/choice.h"

namespace weft::tune::nccl {
namespace {

constexpr Bytes kKi = 1 << 10, kMi = 1 << 20;

System node_of(int ranks, int compute_capability, bool multicasts) {
  System s{.release = 2907, .ranks = ranks, .compute_capability = compute_capability, .nvswitch = multicasts};
  s.windows = true;
  s.channels = 24;
  s.ring = {12, 30, 30, true, true};
  if (multicasts) s.nvls = {16, 24, 24, true, true};
  return s;
}

Row chosen(const System& s, Collective collective, Bytes bytes) {
  const auto all = rows(s, collective, bytes);
  const Row* row = choice(all);
  EXPECT_NE(row, nullptr);
  return row == nullptr ? Row{} : *row;
}

void expect(const System& s, Collective collective, Bytes bytes, Algorithm algorithm, double us, int blocks) {
  const Row row = chosen(s, collective, bytes);
  EXPECT_EQ(row.algorithm, algorithm) << bytes;
  EXPECT_NEAR(row.time.us(), us, 0.01) << bytes;
  EXPECT_EQ(row.channels, blocks) << bytes;
}

// Kernel, time and blocks by NCCL 2.29.7's formulas, worked out by another program.
TEST(NcclSymmetric, KernelsOfOneNodeOfH100) {
  const System s = node_of(8, 90, true);
  expect(s, Collective::kAllReduce, kKi, Algorithm::kSymmetricLLMulticast, 4.97, 2);
  expect(s, Collective::kAllReduce, 64 * kKi, Algorithm::kSymmetricMulticast, 8.16, 1);
  expect(s, Collective::kAllReduce, 8 * kMi, Algorithm::kSymmetricMulticast, 25.11, 2);
  expect(s, Collective::kAllGather, 64 * kKi, Algorithm::kSymmetricLLMulticast, 5.70, 7);
  expect(s, Collective::kAllGather, 32 * kMi, Algorithm::kSymmetricMulticast, 94.62, 2);
  expect(s, Collective::kReduceScatter, 64 * kKi, Algorithm::kSymmetricLL, 5.68, 8);
  expect(s, Collective::kReduceScatter, 128 * kMi, Algorithm::kSymmetricMulticast, 358.08, 2);
}

// Two ranks have no multicast group.
TEST(NcclSymmetric, KernelsOfTwoH100) {
  const System s = node_of(2, 90, true);
  expect(s, Collective::kAllReduce, 64 * kKi, Algorithm::kSymmetricLL, 7.09, 7);
  expect(s, Collective::kAllReduce, 8 * kMi, Algorithm::kSymmetric, 31.81, 7);
  expect(s, Collective::kAllGather, 128 * kMi, Algorithm::kSymmetric, 206.60, 9);
}

TEST(NcclSymmetric, KernelsOfBlackwell) {
  const System s = node_of(4, 100, true);
  expect(s, Collective::kAllReduce, 64 * kKi, Algorithm::kSymmetricLLMulticast, 13.95, 10);
  expect(s, Collective::kAllReduce, 128 * kMi, Algorithm::kSymmetricMulticast, 176.05, 5);
}

TEST(NcclSymmetric, CallsThatHaveNone) {
  System s = node_of(8, 90, true);
  EXPECT_NE(why_not_symmetric(s, Collective::kBroadcast), "");
  s.release = 2605;
  EXPECT_NE(why_not_symmetric(s, Collective::kAllReduce), "");
  s.release = 2907;
  s.nodes = 2;
  s.ranks = 16;
  EXPECT_NE(why_not_symmetric(s, Collective::kAllReduce), "");
  EXPECT_NE(chosen(s, Collective::kAllReduce, kMi).algorithm, Algorithm::kSymmetricMulticast);
}

TEST(NcclSymmetric, TunersNames) {
  EXPECT_EQ(release_of("nccl-2.29.2:symmetric"), 2902);
  EXPECT_TRUE(with_windows("nccl:symmetric"));
  EXPECT_FALSE(with_windows("nccl-2.29"));
  EXPECT_FALSE(release_of("nccl-2.29:windows"));
}

}  // namespace
}  // namespace weft::tune::nccl
