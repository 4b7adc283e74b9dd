#include "plan/collectives/bruck.h"

#include <vector>

#include "plan/collectives/rotations.h"

namespace weft::collectives {

using namespace schedule;

namespace {

int rank_many(const RankContext& s) { return s.ranks; }
int half(const RankContext& s) { return (s.ranks + 1) / 2; }

// After step k a rank has the parts of itself and of the 2^(k+1)-1 ranks after it; it sends all it has to the rank 2^k
// before it. Any number of ranks.
// Steps: ceil(log2 n) messages each way. Bytes sent per rank: (n-1)/n of the message.
Generator<Step> all_gather_steps(RankContext context) {
  const int n = context.ranks, self = context.rank;
  co_yield move(self, {in(self)}, {out(self)});
  for (int have = 1; have < n; have *= 2) {
    const int count = std::min(have, n - have);
    const Rank before = (self - have + n) % n, after = (self + have) % n;
    for (int j = 0; j < count; ++j) {
      const int c = (self + j) % n;
      co_yield move(c, {out(c)}, {to(before).continued(j + 1 < count)});
    }
    for (int j = 0; j < count; ++j) {
      const int c = (after + j) % n;
      co_yield move(c, {from(after).continued(j + 1 < count)}, {out(c)});
    }
  }
}

// The all-gather backwards in time: where it received a part, sums for it are sent; where it sent one, they are added.
// Slot j of scratch has the sum for the part of the rank j further on.
// Steps: ceil(log2 n) messages each way. Bytes sent per rank: (n-1)/n of the message.
Generator<Step> reduce_scatter_steps(RankContext context) {
  const int n = context.ranks, self = context.rank;
  if (n == 1) co_yield move(0, {in(0)}, {out(0)});
  int summed = 0;  // slots that have a sum already; the others are only this rank's input
  const auto sum = [&](int j) { return j < summed ? scratch(j) : in((self + j) % n); };
  int have = 1;
  while (have * 2 < n) have *= 2;
  for (; n > 1 && have > 0; have /= 2) {
    const int count = std::min(have, n - have);
    const Rank before = (self - have + n) % n, after = (self + have) % n;
    for (int j = 0; j < count; ++j)
      co_yield move((after + j) % n, {sum(have + j)}, {to(after).continued(j + 1 < count)});
    for (int j = 0; j < count; ++j) {
      const int c = (self + j) % n;
      co_yield move(c, {from(before).continued(j + 1 < count), sum(j)}, {have == 1 ? out(c) : scratch(j)});
    }
    summed = std::max(summed, count);
  }
}

// A part that must go j ranks further goes 2^k ranks at step k for every bit k of j. Slot j of scratch has it
// meanwhile. Steps: ceil(log2 n) messages each way. Bytes sent per rank: about log2(n)/2 of the message.
Generator<Step> all_to_all_steps(RankContext context) {
  const int n = context.ranks, self = context.rank;
  // The part at slot j of rank r before step k comes from the rank that is the lower bits of j before r.
  const auto chunk = [&](int at, int j, int bit) {
    const int source = ((at - j % bit) % n + n) % n;
    return ChunkId{source} * n + (source + j) % n;
  };
  const ChunkId own = chunk(self, 0, 1);
  co_yield move(own, {in(own)}, {out(own)});
  for (int bit = 1; bit < n; bit *= 2) {
    std::vector<int> slots;
    for (int j = bit; j < n; ++j)
      if ((j & bit) != 0) slots.push_back(j);
    const Rank before = (self - bit + n) % n, after = (self + bit) % n;
    for (const int j : slots) {
      const ChunkId c = chunk(self, j, bit);
      co_yield move(c, {j % bit == 0 ? in(c) : scratch(j)}, {to(after).continued(j != slots.back())});
    }
    for (const int j : slots) {
      const ChunkId c = chunk(before, j, bit);
      co_yield move(c, {from(before).continued(j != slots.back())}, {j < 2 * bit ? out(c) : scratch(j)});
    }
  }
}

constexpr std::string_view kSource =
    "Bruck et al., Efficient algorithms for all-to-all communications in multiport message-passing systems, 1997";

}  // namespace

Algorithm bruck_all_gather() {
  return {.name = "bruck",
          .collective = Collective::kAllGather,
          .when = "small messages, any number of ranks",
          .source = kSource,
          .parts = half,
          .steps = all_gather_steps,
          .rotation = by_one_rank};
}
Algorithm bruck_reduce_scatter() {
  return {.name = "bruck",
          .collective = Collective::kReduceScatter,
          .when = "small messages, any number of ranks",
          .source =
              "the time-reversed all-gather of Bruck et al. 1997; Traeff 2024 (optimal, non-pipelined "
              "reduce-scatter)",
          .scratch = rank_many,
          .parts = half,
          .steps = reduce_scatter_steps,
          .rotation = by_one_rank};
}
Algorithm bruck_all_to_all() {
  return {.name = "bruck",
          .collective = Collective::kAllToAll,
          .when = "small parts on many ranks: few messages, each byte travels log2(n)/2 times",
          .source = kSource,
          .scratch = rank_many,
          .parts = half,
          .steps = all_to_all_steps,
          .rotation = by_one_rank};
}

}  // namespace weft::collectives
