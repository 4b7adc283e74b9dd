#include "plan/collectives/ring.h"

#include <algorithm>
#include <numeric>

#include "plan/collectives/rotations.h"

namespace weft::collectives {

using namespace schedule;

namespace {

const std::vector<Rank>* order_of(const RankContext& context, Rank per_node) {
  if (context.rings == nullptr || context.rings->empty()) return nullptr;
  const std::vector<Rank>& order = (*context.rings)[static_cast<std::size_t>(context.channel) % context.rings->size()];
  return order.size() == static_cast<std::size_t>(per_node) ? &order : nullptr;
}

}  // namespace

Ring::Ring(const RankContext& context)
    : ranks_(context.ranks),
      per_node_(context.ranks % context.ranks_per_node == 0 ? context.ranks_per_node : 1),
      uneven_(context.nodes != nullptr ? std::optional(UnevenNodeOrder(*context.nodes, context.channel))
                                       : std::nullopt),
      order_(order_of(context, per_node_)),
      shift_(place_of(context.channel % per_node_)),
      position_(position_of(context.rank)) {}

int Ring::place_of(Rank local) const {
  return order_ == nullptr ? local : static_cast<int>(std::ranges::find(*order_, local) - order_->begin());
}

Rank Ring::local_at(int place) const { return order_ == nullptr ? place : (*order_)[static_cast<std::size_t>(place)]; }

int Ring::position_of(Rank rank) const {
  if (uneven_) {
    const Rank node = uneven_->node_of(rank), step = uneven_->step_of(rank);
    return uneven_->first(node) + (node % 2 == 0 ? step : uneven_->size(node) - 1 - step);
  }
  const Rank node = rank / per_node_;
  const Rank step = (place_of(rank % per_node_) - shift_ + per_node_) % per_node_;
  return node * per_node_ + (node % 2 == 0 ? step : per_node_ - 1 - step);
}

Rank Ring::rank_at(int position) const {
  if (uneven_) {
    const Rank node = uneven_->node_of(position), step = position - uneven_->first(node);
    return uneven_->at(node, node % 2 == 0 ? step : uneven_->size(node) - 1 - step);
  }
  const Rank node = position / per_node_;
  const Rank step = position % per_node_;
  return node * per_node_ + local_at(((node % 2 == 0 ? step : per_node_ - 1 - step) + shift_) % per_node_);
}

Rank Ring::at(int distance) const { return rank_at(((position_ + distance) % ranks_ + ranks_) % ranks_); }

namespace {

int chunk_per_rank(const RankContext& context) { return context.ranks; }
int one_chunk(const RankContext&) { return 1; }
int orders(const RankContext& s) {
  const int rings = s.rings != nullptr ? static_cast<int>(s.rings->size()) : 1;
  return s.nodes != nullptr ? head_by_channel(s) : std::lcm(std::max(1, rings), s.ranks_per_node);
}
// Two nodes on, a ring looks the same; inside one node it does one rank on, if ranks go by number.
Rank two_nodes(const RankContext& s) {
  if (s.nodes != nullptr) return 0;
  const Rank per_node = s.ranks % s.ranks_per_node == 0 ? s.ranks_per_node : 1;
  if (per_node == 1) return 1;
  if (per_node == s.ranks) return order_of(s, per_node) == nullptr ? 1 : 0;
  return s.ranks / per_node % 2 == 0 ? 2 * per_node : 0;
}
int ranks_between(const RankContext& s) { return s.ranks - 2; }

// Every chunk travels once around the ring collecting contributions, and once more delivering the sum.
//   chunk of rank i:  i+1 -> i+2 -> … -> i (complete) -> i+1 -> … -> i-1
// Steps: 2(n-1)+1 per rank. Bytes sent per rank: 2(n-1)/n of the message, the least possible without a reducing switch.
Generator<Step> all_reduce_steps(RankContext context) {
  const Ring ring(context);
  const int n = context.ranks;
  if (n == 1) {
    co_yield move(0, {in(0)}, {out(0)});
    co_return;
  }
  co_yield move(ring.at(-1), {in(ring.at(-1))}, {to(ring.next())});
  for (int k = 2; k < 2 + context.repeated(n - 2); ++k) {
    const int c = ring.at(-k);
    co_yield move(c, {from(ring.previous()), in(c)}, {to(ring.next())});
  }
  const int own = context.rank;
  co_yield move(own, {from(ring.previous()), in(own)}, {out(own), to(ring.next())});
  for (int k = 1; k < 1 + context.repeated(n - 2); ++k) {
    const int c = ring.at(-k);
    co_yield move(c, {from(ring.previous())}, {out(c), to(ring.next())});
  }
  co_yield move(ring.next(), {from(ring.previous())}, {out(ring.next())});
}

// The second half of the ring all-reduce: each rank passes on what it received last.
// Steps: n per rank. Bytes sent per rank: (n-1)/n of the message.
Generator<Step> all_gather_steps(RankContext context) {
  const Ring ring(context);
  const int n = context.ranks;
  const int own = context.rank;
  if (n == 1) {
    co_yield move(own, {in(own)}, {out(own)});
    co_return;
  }
  co_yield move(own, {in(own)}, {out(own), to(ring.next())});
  for (int k = 1; k < 1 + context.repeated(n - 2); ++k) {
    const int c = ring.at(-k);
    co_yield move(c, {from(ring.previous())}, {out(c), to(ring.next())});
  }
  co_yield move(ring.next(), {from(ring.previous())}, {out(ring.next())});
}

// The first half of the ring all-reduce: a chunk visits every rank and ends, complete, at its owner.
// Steps: n per rank. Bytes sent per rank: (n-1)/n of the message.
Generator<Step> reduce_scatter_steps(RankContext context) {
  const Ring ring(context);
  const int n = context.ranks;
  const int own = context.rank;
  if (n == 1) {
    co_yield move(own, {in(own)}, {out(own)});
    co_return;
  }
  co_yield move(ring.at(-1), {in(ring.at(-1))}, {to(ring.next())});
  for (int k = 2; k < 2 + context.repeated(n - 2); ++k) {
    const int c = ring.at(-k);
    co_yield move(c, {from(ring.previous()), in(c)}, {to(ring.next())});
  }
  co_yield move(own, {from(ring.previous()), in(own)}, {out(own)});
}

// A pipeline: the root feeds slices into the ring, every rank keeps and forwards them, the last one only keeps.
// Steps: 1 per rank. Bytes sent per rank: the message (the last rank: none).
Generator<Step> broadcast_steps(RankContext context) {
  const Ring ring(context);
  const int n = context.ranks;
  const int behind_root = (ring.position() - ring.position_of(context.root) + n) % n;
  const bool last = behind_root == n - 1;
  const Operand source = behind_root == 0 ? in(0) : from(ring.previous());
  if (last)
    co_yield move(0, {source}, {out(0)});
  else
    co_yield move(0, {source}, {out(0), to(ring.next())});
}

// The broadcast backwards: slices run around the ring towards the root, every rank adds its own.
// Steps: 1 per rank. Bytes sent per rank: the message (the root: none).
Generator<Step> reduce_steps(RankContext context) {
  const Ring ring(context);
  const int n = context.ranks;
  const int behind_root = (ring.position() - ring.position_of(context.root) + n) % n;
  Operands sources;
  if (n > 1 && behind_root != 1 % n) sources.push_back(from(ring.previous()));
  sources.push_back(in(0));
  co_yield move(0, sources, {behind_root == 0 ? out(0) : to(ring.next())});
}

Algorithm ring(Collective collective, std::string_view when, int (*chunks)(const RankContext&),
               Generator<Step> (*steps)(RankContext)) {
  const bool all_alike = chunks == chunk_per_rank;
  return {
      .name = "ring",
      .collective = collective,
      .when = when,
      .source =
          "Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 2009; NCCL",
      .chunks = chunks,
      .steps = steps,
      .orders = orders,
      .rotation = all_alike ? two_nodes : nullptr,
      .repeats = all_alike ? ranks_between : nullptr,
      .growth = Growth::kPerNode};
}

}  // namespace

Algorithm ring_all_reduce() {
  return ring(Collective::kAllReduce,
              "large messages: every link carries the least possible bytes, but latency grows with the ranks",
              chunk_per_rank, all_reduce_steps);
}
Algorithm ring_all_gather() { return ring(Collective::kAllGather, "large messages", chunk_per_rank, all_gather_steps); }
Algorithm ring_reduce_scatter() {
  return ring(Collective::kReduceScatter, "large messages", chunk_per_rank, reduce_scatter_steps);
}
Algorithm ring_broadcast() {
  return ring(Collective::kBroadcast, "large messages; the pipeline fills once per rank", one_chunk, broadcast_steps);
}

Algorithm ring_reduce() {
  return ring(Collective::kReduce, "large messages; the pipeline fills once per rank", one_chunk, reduce_steps);
}

}  // namespace weft::collectives
