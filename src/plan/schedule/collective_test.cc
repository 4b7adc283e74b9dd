#include "plan/schedule/collective.h"

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
            "unknown collective 'all_redcue'; did you mean all_reduce? there are all_reduce, broadcast, reduce, "
            "all_gather, reduce_scatter, "
            "all_to_all, gather, scatter, send_recv, barrier, all_gather_v, reduce_scatter_v, all_to_all_v, dispatch, "
            "combine");
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
  for (const Collective c : kCollectives) {
    if (c == Collective::kBarrier) continue;
    const Shape shape{c, kRanks, 2, 2 * blocks(c, kRanks)};
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      int contributors = 0, takers = 0;
      for (Rank r = 0; r < kRanks; ++r) {
        contributors += holds(shape, Buffer::kIn, chunk, r);
        takers += holds(shape, Buffer::kOut, chunk, r);
      }
      const auto wanted = static_cast<int>(contributors_to(shape, chunk).size());
      EXPECT_EQ(wanted, reduces(c) ? kRanks : 1) << name(c) << " chunk " << chunk;
      EXPECT_EQ(contributors, wanted) << name(c) << " chunk " << chunk;
      EXPECT_GE(takers, 1) << name(c) << " chunk " << chunk;
    }
  }
}

TEST(Collective, HoldsWhatItsDefinitionSays) {
  const auto held = [](Collective c, Buffer b, int chunk, Rank r) {
    return holds({c, 4, 2, blocks(c, 4)}, b, chunk, r);
  };
  EXPECT_TRUE(held(Collective::kAllGather, Buffer::kIn, 3, 3));
  EXPECT_FALSE(held(Collective::kAllGather, Buffer::kIn, 3, 2));
  EXPECT_FALSE(held(Collective::kReduceScatter, Buffer::kOut, 3, 2));
  EXPECT_TRUE(held(Collective::kBroadcast, Buffer::kIn, 0, 2));
  EXPECT_FALSE(held(Collective::kReduce, Buffer::kOut, 0, 1));
  EXPECT_TRUE(held(Collective::kGather, Buffer::kOut, 1, 2));
  EXPECT_FALSE(held(Collective::kScatter, Buffer::kIn, 1, 1));
  EXPECT_TRUE(held(Collective::kAllToAll, Buffer::kIn, 3 * 4 + 1, 3));  // from 3 to 1
  EXPECT_TRUE(held(Collective::kAllToAll, Buffer::kOut, 3 * 4 + 1, 1));
  EXPECT_FALSE(held(Collective::kAllToAll, Buffer::kOut, 3 * 4 + 1, 3));
  EXPECT_TRUE(held(Collective::kSendReceive, Buffer::kOut, 3, 0));
}

TEST(Layout, ChunksAreWholeCacheLinesAndTheLastOnesMayBeShortOrEmpty) {
  // 100 floats = 400 B on 4 chunks: 100 B each, rounded up to 128 B: 128, 128, 128, 16.
  const Layout l({Collective::kAllReduce, 4, 0, 4}, 100, 4);
  EXPECT_EQ(l.largest_chunk(), 128);
  EXPECT_EQ(l.chunk_bytes(2), 128);
  EXPECT_EQ(l.chunk_bytes(3), 16);
  EXPECT_EQ(l.offset(Buffer::kOut, 3), 384);
  // 3 int64 = 24 B on 4 chunks: the first one has all of it.
  const Layout small({Collective::kAllReduce, 4, 0, 4}, 3, 8);
  EXPECT_EQ(small.chunk_bytes(0), 24);
  for (int c = 1; c < 4; ++c) EXPECT_EQ(small.chunk_bytes(c), 0);
}

// The chunks that a buffer holds fill it without a gap, whatever the collective, cut and counts.
TEST(Layout, ChunksFillEveryBuffer) {
  for (const Collective c : kCollectives) {
    if (c == Collective::kBarrier) continue;
    for (const Rank ranks : {1, 3, 8})
      for (const Bytes element : {1, 4, 8})
        for (const Bytes count : {0, 1, 17, 1009})
          for (const int per_block : {1, 2, 7}) {
            const Shape shape{c, ranks, ranks / 2, per_block * blocks(c, ranks)};
            std::vector<Bytes> counts;
            if (uneven(c))
              for (int b = 0; b < blocks(c, ranks); ++b) counts.push_back((count * (b + 2)) % 101);
            const Layout l(shape, divides(c, ranks, count) ? count : count * ranks, element, counts);
            for (Rank r = 0; r < ranks; ++r)
              for (const Buffer buffer : {Buffer::kIn, Buffer::kOut}) {
                Bytes at = 0;
                for (int chunk = 0; chunk < shape.chunks; ++chunk) {
                  if (!holds(shape, buffer, chunk, r)) continue;
                  ASSERT_EQ(l.offset(buffer, chunk), at) << name(c);
                  ASSERT_LE(l.chunk_bytes(chunk), l.largest_chunk());
                  ASSERT_EQ(l.chunk_bytes(chunk) % element, 0);
                  at += l.chunk_bytes(chunk);
                }
                ASSERT_EQ(at, l.buffer_bytes(buffer, r)) << name(c);
              }
          }
  }
}

TEST(Layout, UnevenPartsArePackedInTheOrderOfTheirNumbers) {
  const Bytes counts[] = {1, 0, 5, 2, 7, 3, 4, 4, 6};  // 3 ranks; from * 3 + to
  const Layout l({Collective::kAllToAllV, 3, 0, 9}, 0, 4, counts);
  EXPECT_EQ(l.offset(Buffer::kIn, 5), 4 * (2 + 7));  // rank 1's third part
  EXPECT_EQ(l.offset(Buffer::kOut, 5), 4 * 5);       // rank 2 has 5 elements from rank 0 before
  EXPECT_EQ(l.buffer_bytes(Buffer::kIn, 1), 4 * 12);
  EXPECT_EQ(l.buffer_bytes(Buffer::kOut, 2), 4 * (5 + 3 + 6));
}

TEST(LayoutDeathTest, RefusesACountThatCannotBeOwnedEqually) {
  EXPECT_DEATH(Layout({Collective::kAllGather, 3, 0, 3}, 16, 4), "16 elements, 3 ranks");
}

}  // namespace
}  // namespace weft::schedule
