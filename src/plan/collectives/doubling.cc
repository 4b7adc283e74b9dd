#include "plan/collectives/doubling.h"

#include <bit>

namespace weft::collectives {

using namespace schedule;

namespace {

// The largest power of two of the ranks take part as cores. The others, the even ones of the first pairs of ranks,
// hand their input to their odd neighbour and get their result from it.
//   6 ranks: pairs (0,1) and (2,3), cores 1 3 4 5; core 0 works for the chunks of ranks 0 and 1, core 2 for that of 4.
class Cores {
 public:
  explicit Cores(const RankContext& context)
      : count_(static_cast<int>(std::bit_floor(static_cast<unsigned>(context.ranks)))),
        pairs_(context.ranks - count_),
        rank_(context.rank) {}

  int count() const { return count_; }
  bool outside() const { return rank_ < 2 * pairs_ && rank_ % 2 == 0; }
  // The core's neighbour outside, or none (-1).
  Rank ward() const { return rank_ < 2 * pairs_ && rank_ % 2 == 1 ? rank_ - 1 : -1; }
  int me() const { return rank_ < 2 * pairs_ ? rank_ / 2 : rank_ - pairs_; }
  Rank rank_of(int core) const { return core < pairs_ ? 2 * core + 1 : core + pairs_; }
  // The first chunk of a core, with one chunk per rank.
  int first_chunk(int core) const { return core < pairs_ ? 2 * core : core + pairs_; }

 private:
  int count_;
  Rank pairs_, rank_;
};

struct Range {
  int begin, end;
  int size() const { return end - begin; }
};

// One message with all these chunks.
Generator<Step> send_range(Rank peer, Range chunks, Operand (*source)(ChunkId)) {
  for (int c = chunks.begin; c < chunks.end; ++c)
    co_yield move(c, {source(c)}, {to(peer).continued(c + 1 < chunks.end)});
}

// Every core exchanges its whole sum with a core twice as far away each time.
// Steps: 2 log2(n), off powers of two 2 more. Bytes sent per rank: log2(n) messages.
Generator<Step> doubling_all_reduce_steps(RankContext context) {
  const Cores cores(context);
  if (cores.outside()) {
    co_yield move(0, {in(0)}, {to(context.rank + 1)});
    co_yield move(0, {from(context.rank + 1)}, {out(0)});
    co_return;
  }
  Operand sum = in(0);
  if (cores.ward() >= 0) {
    co_yield move(0, {from(cores.ward()), in(0)}, {out(0)});
    sum = out(0);
  }
  for (int distance = 1; distance < cores.count(); distance *= 2) {
    const Rank peer = cores.rank_of(cores.me() ^ distance);
    co_yield move(0, {sum}, {to(peer)});
    co_yield move(0, {from(peer), sum}, {out(0)});
    sum = out(0);
  }
  if (cores.ward() >= 0) co_yield move(0, {out(0)}, {to(cores.ward())});
  if (context.ranks == 1) co_yield move(0, {in(0)}, {out(0)});
}

// Each time half of what a core still works for goes to its partner, half as far away, which adds its own; at the end
// it has the sums of its own chunks, in `sums`.
Generator<Step> halve(Cores cores, Operand (*sums)(ChunkId)) {
  Range mine{0, cores.count()};  // cores
  const bool fresh = cores.ward() < 0;
  for (int distance = cores.count() / 2; distance > 0; distance /= 2) {
    const Rank peer = cores.rank_of(cores.me() ^ distance);
    const int middle = mine.begin + distance;
    const bool upper = cores.me() >= middle;
    const Range theirs = upper ? Range{mine.begin, middle} : Range{middle, mine.end};
    mine = upper ? Range{middle, mine.end} : Range{mine.begin, middle};
    Operand (*const source)(ChunkId) = fresh && distance == cores.count() / 2 ? in : sums;
    auto send = send_range(peer, {cores.first_chunk(theirs.begin), cores.first_chunk(theirs.end)}, source);
    while (const Step* step = send.next()) co_yield *step;
    const int end = cores.first_chunk(mine.end);
    for (int c = cores.first_chunk(mine.begin); c < end; ++c)
      co_yield move(c, {from(peer).continued(c + 1 < end), source(c)}, {sums(c)});
  }
}

// The way back: each time a core gets as many chunks as it has from a partner twice as far away.
Generator<Step> redouble(Cores cores) {
  for (int distance = 1; distance < cores.count(); distance *= 2) {
    const Rank peer = cores.rank_of(cores.me() ^ distance);
    const int begin = cores.me() / distance * distance, theirs = begin ^ distance;
    auto send = send_range(peer, {cores.first_chunk(begin), cores.first_chunk(begin + distance)}, out);
    while (const Step* step = send.next()) co_yield *step;
    const int end = cores.first_chunk(theirs + distance);
    for (int c = cores.first_chunk(theirs); c < end; ++c)
      co_yield move(c, {from(peer).continued(c + 1 < end)}, {out(c)});
  }
}

// The neighbour's whole input is added first.
Generator<Step> take_in(Cores cores, int chunks, Operand (*sums)(ChunkId)) {
  if (cores.ward() < 0) co_return;
  for (int c = 0; c < chunks; ++c) co_yield move(c, {from(cores.ward()).continued(c + 1 < chunks), in(c)}, {sums(c)});
}

// Rabenseifner's all-reduce: halving, then doubling.
// Steps: 2 log2(n) exchanges, off powers of two 2 more. Bytes sent per rank: 2(p-1)/p of the message for p cores.
Generator<Step> halving_doubling_steps(RankContext context) {
  const Cores cores(context);
  const int n = context.ranks;
  if (cores.outside()) {
    auto send = send_range(context.rank + 1, {0, n}, in);
    while (const Step* step = send.next()) co_yield *step;
    for (int c = 0; c < n; ++c) co_yield move(c, {from(context.rank + 1).continued(c + 1 < n)}, {out(c)});
    co_return;
  }
  auto first = take_in(cores, n, out);
  while (const Step* step = first.next()) co_yield *step;
  auto down = halve(cores, out);
  while (const Step* step = down.next()) co_yield *step;
  auto up = redouble(cores);
  while (const Step* step = up.next()) co_yield *step;
  if (cores.ward() >= 0) {
    auto last = send_range(cores.ward(), {0, n}, out);
    while (const Step* step = last.next()) co_yield *step;
  }
  if (n == 1) co_yield move(0, {in(0)}, {out(0)});
}

// The first half alone. Steps: log2(n) exchanges, off powers of two 2 more. Bytes sent per rank: (p-1)/p of the
// message.
Generator<Step> halving_steps(RankContext context) {
  const Cores cores(context);
  const int n = context.ranks, own = context.rank;
  if (cores.outside()) {
    auto send = send_range(own + 1, {0, n}, in);
    while (const Step* step = send.next()) co_yield *step;
    co_yield move(own, {from(own + 1)}, {out(own)});
    co_return;
  }
  auto first = take_in(cores, n, scratch);
  while (const Step* step = first.next()) co_yield *step;
  auto down = halve(cores, scratch);
  while (const Step* step = down.next()) co_yield *step;
  if (cores.ward() >= 0) co_yield move(own - 1, {scratch(own - 1)}, {to(own - 1)});
  co_yield move(own, {n == 1 ? in(own) : scratch(own)}, {out(own)});
}

// The second half alone. Steps: log2(n) exchanges, off powers of two 2 more. Bytes sent per rank: (p-1)/p of the
// message.
Generator<Step> doubling_all_gather_steps(RankContext context) {
  const Cores cores(context);
  const int n = context.ranks, own = context.rank;
  if (cores.outside()) {
    co_yield move(own, {in(own)}, {out(own), to(own + 1)});
    for (int c = 0; c < n; ++c)
      if (c != own) co_yield move(c, {from(own + 1).continued(c + 1 < n)}, {out(c)});
    co_return;
  }
  co_yield move(own, {in(own)}, {out(own)});
  const Rank ward = cores.ward();
  if (ward >= 0) co_yield move(ward, {from(ward)}, {out(ward)});
  auto up = redouble(cores);
  while (const Step* step = up.next()) co_yield *step;
  if (ward >= 0)
    for (int c = 0; c < n; ++c)
      if (c != ward) co_yield move(c, {out(c)}, {to(ward).continued(c + 1 < n)});
}

constexpr std::string_view kSource =
    "Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, 2005";

int rank_many(const RankContext& s) { return s.ranks; }

}  // namespace

Algorithm recursive_doubling_all_reduce() {
  return {.name = "recursive_doubling",
          .collective = Collective::kAllReduce,
          .when = "small messages on many ranks: fewest steps of equal length",
          .source = kSource,
          .chunks = [](const RankContext&) { return 1; },
          .steps = doubling_all_reduce_steps,
          .growth = Growth::kPerDoubling};
}
Algorithm recursive_doubling_all_gather() {
  return {.name = "recursive_doubling",
          .collective = Collective::kAllGather,
          .when = "small messages on a power of two of ranks",
          .source = kSource,
          .parts = rank_many,
          .steps = doubling_all_gather_steps};
}
Algorithm recursive_halving_reduce_scatter() {
  return {.name = "recursive_halving",
          .collective = Collective::kReduceScatter,
          .when = "small and medium messages on a power of two of ranks",
          .source = kSource,
          .scratch = rank_many,
          .parts = rank_many,
          .steps = halving_steps};
}
Algorithm halving_doubling_all_reduce() {
  return {.name = "halving_doubling",
          .collective = Collective::kAllReduce,
          .when = "medium messages: least bytes in a logarithmic number of steps",
          .source = kSource,
          .chunks = rank_many,
          .parts = rank_many,
          .steps = halving_doubling_steps};
}

}  // namespace weft::collectives
