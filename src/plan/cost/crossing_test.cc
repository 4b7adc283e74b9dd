#include "plan/cost/crossing.h"

#include <gtest/gtest.h>

namespace weft::cost {
namespace {

using schedule::Buffer;
using schedule::ChunkId;
using schedule::Shape;

// Every block of one byte crosses a cut once if an input on one side holds it and an output on the other wants it.
TEST(Crossing, IsWhatPreAndPostconditionsSayAboutBothSidesOfACut) {
  for (const Collective collective : schedule::kCollectives) {
    if (schedule::uneven(collective) || collective == Collective::kBarrier) continue;
    for (const Rank n : {2, 3, 5, 8})
      for (const Rank root : {0, n - 1})
        for (std::uint32_t members = 0; members < (1u << n); ++members) {
          const Rank used_root = schedule::rooted(collective) ? root : 0;
          const bool routed = schedule::routed(collective);
          const auto& routes = schedule::shown_routes(n);
          const ChunkId blocks = routed ? routes->tokens() : schedule::blocks(collective, n);
          const Shape shape{collective, n, used_root, blocks};
          const auto inside = [&](Rank r) { return (members >> r & 1) != 0; };
          const auto any = [&](Buffer buffer, ChunkId block, bool side) {
            for (Rank r = 0; r < n; ++r)
              if (inside(r) == side && holds(shape, buffer, block, r)) return true;
            return false;
          };
          RankSet set;
          for (Rank r = 0; r < n; ++r) {
            set.ranks += inside(r);
            set.has_root |= inside(r) && r == used_root;
            for (ChunkId b = 0; b < blocks && collective == Collective::kSendReceive; ++b)
              if (inside(r) && holds(shape, Buffer::kIn, b, r) && any(Buffer::kOut, b, false)) ++set.senders;
          }
          if (routed) {
            RankSet others;
            std::vector<std::int32_t> set_of;
            for (Rank r = 0; r < n; ++r) set_of.push_back(inside(r) ? 0 : 1);
            RankSet* sets[] = {&set, &others};
            count_tokens(*routes, set_of, sets);
          }
          double out = 0, in = 0;
          for (ChunkId b = 0; b < blocks; ++b) {
            out += any(Buffer::kIn, b, true) && any(Buffer::kOut, b, false);
            in += any(Buffer::kIn, b, false) && any(Buffer::kOut, b, true);
          }
          // The message is a rank's larger side: all blocks, but of all_to_all n of n * n, and one of send_receive's n.
          const double bytes = collective == Collective::kAllToAll      ? static_cast<double>(n)
                               : collective == Collective::kSendReceive ? 1
                                                                        : static_cast<double>(blocks);
          const Crossing crossed = crossing(collective, n, set, bytes);
          ASSERT_NEAR(crossed.out, out, 1e-9) << schedule::name(collective) << " on " << n << ", ranks " << members;
          ASSERT_NEAR(crossed.in, in, 1e-9) << schedule::name(collective) << " on " << n << ", ranks " << members;
        }
  }
}

TEST(Crossing, OfAnAllToAllVIsWhatRanksInsideHaveForThoseOutside) {
  // Rank r has 10 r + s elements of 4 bytes for rank s.
  std::vector<Bytes> counts;
  for (Bytes r = 0; r < 3; ++r)
    for (Bytes s = 0; s < 3; ++s) counts.push_back(10 * r + s);
  RankSet first, others;
  RankSet* sets[] = {&first, &others};
  const std::int32_t set_of[] = {0, 1, 1};
  count_pairs(counts, 4, set_of, sets);
  first.ranks = 1;
  others.ranks = 2;
  const Crossing of_first = crossing(Collective::kAllToAllV, 3, first, 0),
                 back = crossing(Collective::kAllToAllV, 3, others, 0);
  EXPECT_EQ(of_first.out, 4 * (1 + 2));
  EXPECT_EQ(of_first.in, 4 * (10 + 20));
  EXPECT_EQ(back.out, of_first.in);
  EXPECT_EQ(back.in, of_first.out);
}

}  // namespace
}  // namespace weft::cost
