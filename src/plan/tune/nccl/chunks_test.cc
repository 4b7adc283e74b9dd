#include "plan/tune/nccl/chunks.h"

#include <gtest/gtest.h>

namespace weft::tune::nccl {
namespace {

using protocol::Protocol;

constexpr Bytes kKi = 1 << 10, kMi = 1 << 20, kGi = 1 << 30;

const System kOneNode{.ranks = 8, .nodes = 1, .nvls = {8, 40, 40}};
const System kTwoNodes{.ranks = 16, .nodes = 2, .nvls = {8, 40, 40}};

Bytes all_reduce_slice(const System& s, Algorithm a, Protocol p, int channels, Bytes bytes) {
  return slice_of(s, Collective::kAllReduce, {.algorithm = a, .protocol = p, .channels = channels}, bytes);
}

// 16 channels of 8 heads: 128 chunks at once. Below 64 * 128 * 128 KiB chunks are of 64 KiB, below 8 * 128 * 64 KiB of
// 32 KiB, below 2 * 128 * 32 KiB of 16 KiB.
TEST(NcclChunks, OfNvlsGrowWithTheMessage) {
  const auto slice = [](Bytes bytes) {
    return all_reduce_slice(kOneNode, Algorithm::kNvls, Protocol::kSimple, 16, bytes);
  };
  EXPECT_EQ(slice(kGi), 128 * kKi);
  EXPECT_EQ(slice(kGi - 1), 64 * kKi);
  EXPECT_EQ(slice(64 * kMi - 1), 32 * kKi);
  EXPECT_EQ(slice(8 * kMi - 1), 16 * kKi);
}

// Half of 16 MiB / (8 ranks * 4 channels); at the most half of four slots of 512 KiB.
TEST(NcclChunks, OfSimpleRingsAreHalvesOfARanksChunk) {
  EXPECT_EQ(all_reduce_slice(kOneNode, Algorithm::kRing, Protocol::kSimple, 4, 16 * kMi), 256 * kKi);
  EXPECT_EQ(all_reduce_slice(kOneNode, Algorithm::kRing, Protocol::kSimple, 4, kGi), kMi);
  EXPECT_EQ(slice_of(kOneNode, Collective::kBroadcast, {.channels = 4}, kGi), 512 * kKi);
}

// Two nodes of eight: 1 + 1 + 0.8 = 2.8 steps, so 2.8 * 64 / 8 = 22.4 chunks per channel or chunks become 128 KiB or
// less, and 5.6 or they go on to 32 KiB or less: 576,000 B are halved to 72,000, and to 18,000.
TEST(NcclChunks, OfLL128TreesAreSmallerForSmallMessages) {
  const auto slice = [](Bytes bytes) {
    return all_reduce_slice(kTwoNodes, Algorithm::kTree, Protocol::kLL128, 16, bytes);
  };
  EXPECT_EQ(slice(kGi), 576'000);
  EXPECT_EQ(slice(16 * kMi), 72'000);
  EXPECT_EQ(slice(kMi), 18'000);
}

// 15 of 20 warps copy, half of them in, half out: at 65 GB/s * 7.5 / 20 = 24.375 GB/s. 1 MiB for each of 16 channels is
// 8 slices of 128 KiB, 43.02 us, and a hand-over 3.4 us.
TEST(NcclChunks, ThroughNvlsAreCopiedInAndOut) {
  const auto staging = [](Collective c, Algorithm a, Bytes bytes) {
    return staging_of(kOneNode, c, {.algorithm = a, .channels = 16, .slice = 128 * kKi}, bytes).us();
  };
  EXPECT_NEAR(staging(Collective::kAllReduce, Algorithm::kNvls, kGi), 2 * (43.02 + 3.4), 0.01);
  EXPECT_NEAR(staging(Collective::kAllGather, Algorithm::kNvls, kGi), 43.02 + 3.4, 0.01);
  EXPECT_NEAR(staging(Collective::kAllReduce, Algorithm::kNvls, 8 * kMi), 43.02 + 2 * 3.4, 0.01) << "half a chunk";
  EXPECT_EQ(staging(Collective::kAllReduce, Algorithm::kRing, kGi), 0);
}

}  // namespace
}  // namespace weft::tune::nccl
