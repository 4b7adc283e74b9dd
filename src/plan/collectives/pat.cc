#include "plan/collectives/pat.h"

#include <bit>

#include "plan/collectives/rotations.h"

namespace weft::collectives {

using namespace schedule;

namespace {

constexpr int kBlocks = 8;  // in one message, of large blocks: as many as NCCL's buffer has slots

// As many blocks as a message can hold whole, or else kBlocks; no more than half of all.
int aggregate_of(const RankContext& context) {
  const int most = std::max(kBlocks, context.bundle);
  int a = 1;
  while (2 * a <= most && 2 * a <= context.ranks / 2) a *= 2;
  return a;
}

// Every block travels along a binomial tree whose root is its owner: the rank at distance s before the owner gets it
// over a hop of s's lowest set bit. Far distances come first, so that the long hops carry few blocks.
//   aggregated part  distances that are multiples of D = P / aggregate, by halving: as recursive doubling
//   linear part      the tree on 1 … D-1, depth first, `aggregate` blocks at a time: few blocks are under way at once
void depth_first(int v, int aggregate, int stride, Rank ranks, std::vector<PatRound>& rounds) {
  const int low = v & -v;
  PatRound round{.hop = low, .distances = {}};
  for (int a = 0; a < aggregate; ++a)
    if (a * stride + v < ranks) round.distances.push_back(a * stride + v);
  if (!round.distances.empty()) rounds.push_back(std::move(round));
  for (int bit = low / 2; bit > 0; bit /= 2) depth_first(v + bit, aggregate, stride, ranks, rounds);
}

Generator<Step> all_gather_steps(RankContext context) {
  const int n = context.ranks, self = context.rank;
  co_yield move(self, {in(self)}, {out(self)});
  for (const PatRound& round : pat_rounds(n, aggregate_of(context))) {
    const Rank before = ((self - round.hop) % n + n) % n, after = (self + round.hop) % n;
    const auto& d = round.distances;
    for (const int s : d) {
      const int c = (self + s - round.hop) % n;
      co_yield move(c, {out(c)}, {to(before).continued(s != d.back())});
    }
    for (const int s : d) co_yield move((self + s) % n, {from(after).continued(s != d.back())}, {out((self + s) % n)});
  }
}

// The all-gather backwards: sums travel from the leaves to the owner. A sum takes a slot when the first part of it
// arrives and gives it back when it is sent on.
class Sums {
 public:
  explicit Sums(Rank ranks) : slot_(static_cast<std::size_t>(ranks), -1) {}

  bool has(int distance) const { return slot(distance) >= 0; }
  int slot(int distance) const { return slot_[static_cast<std::size_t>(distance)]; }
  void add(int distance) {
    if (has(distance)) return;
    if (free_.empty()) free_.push_back(used_++);
    slot_[static_cast<std::size_t>(distance)] = free_.back();
    free_.pop_back();
  }
  void remove(int distance) {
    if (has(distance)) free_.push_back(slot(distance));
    slot_[static_cast<std::size_t>(distance)] = -1;
  }
  int used() const { return used_; }

 private:
  std::vector<int> slot_, free_;
  int used_ = 0;
};

int scratch_slots(const RankContext& context) {
  Sums sums(context.ranks);
  const auto rounds = pat_rounds(context.ranks, aggregate_of(context));
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    for (const int s : round->distances) sums.remove(s);
    for (const int s : round->distances) sums.add(s - round->hop);
  }
  return sums.used();
}

Generator<Step> reduce_scatter_steps(RankContext context) {
  const int n = context.ranks, self = context.rank;
  Sums sums(n);
  const auto chunk = [&](int distance) { return (self + distance) % n; };
  const auto sum = [&](int distance) {
    return sums.has(distance) ? scratch(sums.slot(distance)) : in(chunk(distance));
  };
  const auto rounds = pat_rounds(n, aggregate_of(context));
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    const Rank before = ((self - round->hop) % n + n) % n, after = (self + round->hop) % n;
    const auto& d = round->distances;
    for (const int s : d) {
      co_yield move(chunk(s), {sum(s)}, {to(after).continued(s != d.back())});
      sums.remove(s);
    }
    for (const int s : d) {
      const int mine = s - round->hop;
      const Operand before_sum = sum(mine);
      sums.add(mine);
      co_yield move(chunk(mine), {from(before).continued(s != d.back()), before_sum}, {scratch(sums.slot(mine))});
    }
  }
  co_yield move(self, {sum(0)}, {out(self)});
}

constexpr std::string_view kSource =
    "Jeaugey, PAT: a new algorithm for all-gather and reduce-scatter operations at scale, 2025; NCCL 2.23";

}  // namespace

std::vector<PatRound> pat_rounds(Rank ranks, int aggregate) {
  std::vector<PatRound> rounds;
  const int span = static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) / aggregate;
  for (int scale = aggregate / 2; scale > 0; scale /= 2) {
    PatRound round{.hop = scale * span, .distances = {}};
    for (int s = scale * span; s < ranks; s += 2 * scale * span) round.distances.push_back(s);
    if (!round.distances.empty()) rounds.push_back(std::move(round));
  }
  for (int v = span / 2; v > 0; v /= 2) depth_first(v, aggregate, span, ranks, rounds);
  return rounds;
}

Algorithm pat_all_gather() {
  return {.name = "pat",
          .collective = Collective::kAllGather,
          .when = "small and medium messages on many ranks: logarithmic latency, long hops carry little",
          .source = kSource,
          .parts = aggregate_of,
          .steps = all_gather_steps,
          .rotation = by_one_rank};
}
Algorithm pat_reduce_scatter() {
  return {.name = "pat",
          .collective = Collective::kReduceScatter,
          .when = "small and medium messages on many ranks: logarithmic latency, long hops carry little",
          .source = kSource,
          .scratch = scratch_slots,
          .parts = aggregate_of,
          .steps = reduce_scatter_steps,
          .rotation = by_one_rank};
}

}  // namespace weft::collectives
