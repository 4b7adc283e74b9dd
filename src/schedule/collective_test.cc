#include "schedule/collective.h"

#include <gtest/gtest.h>

namespace weft::schedule {
namespace {

TEST(Collective, NamesAreReadBack) {
  for (const Collective c : kCollectives) EXPECT_EQ(parse_collective(name(c)).value(), c);
}

TEST(Collective, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  const auto r = parse_collective("all_redcue");
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(r.error().message,
            "unknown collective 'all_redcue'; there are all_reduce, all_gather, reduce_scatter, broadcast");
}

// nccl-tests doc/PERFORMANCE.md: all_reduce 2(n-1)/n, all_gather and reduce_scatter (n-1)/n, broadcast 1.
TEST(Collective, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllReduce, 8), 2 * 7 / 8.0);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllReduce, 2), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllGather, 4), 3 / 4.0);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kReduceScatter, 4), 3 / 4.0);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kBroadcast, 16), 1);
}

TEST(Collective, EveryOutputChunkHasContributors) {
  constexpr Rank kRanks = 4;
  const auto contributors = [](Collective c, int chunk) {
    int n = 0;
    for (Rank r = 0; r < kRanks; ++r) n += contributes(c, r, chunk, 2);
    return n;
  };
  for (int chunk = 0; chunk < kRanks; ++chunk) {
    EXPECT_EQ(contributors(Collective::kAllReduce, chunk), kRanks);
    EXPECT_EQ(contributors(Collective::kReduceScatter, chunk), kRanks);
    EXPECT_EQ(contributors(Collective::kAllGather, chunk), 1);  // its owner
    EXPECT_EQ(contributors(Collective::kBroadcast, chunk), 1);  // the root
  }
  EXPECT_TRUE(contributes(Collective::kBroadcast, 2, 0, 2));
  EXPECT_TRUE(holds(Collective::kAllGather, Buffer::kIn, 3, 3, kRanks, 0));
  EXPECT_FALSE(holds(Collective::kAllGather, Buffer::kIn, 3, 2, kRanks, 0));
  EXPECT_FALSE(holds(Collective::kReduceScatter, Buffer::kOut, 3, 2, kRanks, 0));
}

TEST(Layout, ChunksAreWholeCacheLinesAndTheLastOnesMayBeShortOrEmpty) {
  // 100 floats = 400 B on 4 chunks: 100 B each, rounded up to 128 B: 128, 128, 128, 16.
  const Layout l(Collective::kAllReduce, 4, 4, 100, 4);
  EXPECT_EQ(l.message_bytes(), 400);
  EXPECT_EQ(l.largest_chunk(), 128);
  EXPECT_EQ(l.chunk_bytes(2), 128);
  EXPECT_EQ(l.chunk_bytes(3), 16);
  EXPECT_EQ(l.offset(Buffer::kOut, 3), 384);
  // 3 int64 = 24 B on 4 chunks: the first one has all of it.
  const Layout small(Collective::kAllReduce, 4, 4, 3, 8);
  EXPECT_EQ(small.chunk_bytes(0), 24);
  for (int c = 1; c < 4; ++c) EXPECT_EQ(small.chunk_bytes(c), 0);
}

TEST(Layout, ChunksAreContiguousAndCoverTheMessage) {
  for (const Bytes element : {1, 4, 8})
    for (const Bytes elements : {0, 1, 2, 17, 1009, 65537})
      for (const int chunks : {1, 2, 3, 7, 64}) {
        const Layout l(Collective::kAllReduce, 8, chunks, elements, element);
        Bytes at = 0;
        for (int c = 0; c < chunks; ++c) {
          ASSERT_EQ(l.offset(Buffer::kIn, c), at);
          ASSERT_EQ(l.offset(Buffer::kScratch, c), at);
          ASSERT_LE(l.chunk_bytes(c), l.largest_chunk());
          ASSERT_EQ(l.chunk_bytes(c) % element, 0);
          at += l.chunk_bytes(c);
        }
        EXPECT_EQ(at, elements * element);
      }
}

TEST(Layout, OwnedChunksAreEqualAndTheSmallBufferHoldsOne) {
  // 3 ranks with 5 doubles each: 40 B per chunk, no rounding.
  const Layout gather(Collective::kAllGather, 3, 3, 15, 8);
  const Layout scatter(Collective::kReduceScatter, 3, 3, 15, 8);
  for (int c = 0; c < 3; ++c) {
    EXPECT_EQ(gather.chunk_bytes(c), 40);
    EXPECT_EQ(gather.offset(Buffer::kIn, c), 0);
    EXPECT_EQ(gather.offset(Buffer::kOut, c), 40 * c);
    EXPECT_EQ(scatter.offset(Buffer::kIn, c), 40 * c);
    EXPECT_EQ(scatter.offset(Buffer::kOut, c), 0);
  }
}

TEST(LayoutDeathTest, RefusesACountThatCannotBeOwnedEqually) {
  EXPECT_DEATH(Layout(Collective::kAllGather, 3, 3, 16, 4), "16 elements, 3 chunks");
}

}  // namespace
}  // namespace weft::schedule
