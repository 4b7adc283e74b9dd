#include "plan/collectives/spread.h"

#include "plan/collectives/peer_order.h"

namespace weft::collectives {

using namespace schedule;

namespace {

// The blocks of a buffer in the order in which they arrive where every rank has one, else backwards from the one that
// has the rank's own number: not all ranks receive from the same peer at the same time.
ChunkId rotated(const Run& run, const PeerOrder& order, const RankContext& context, ChunkId i) {
  if (run.count == context.ranks) return run.at(order.before(static_cast<Rank>(i)));
  return run.at(((context.rank - i) % run.count + run.count) % run.count);
}

// Every block goes from each rank that has it in its input to each rank that wants it in its output, without detour;
// the receiver sums all contributions at once, in rank order. One hop: nothing has a lower latency.
// Steps: one send per peer and block, one receive per block. Bytes sent per rank: what the peers want of it.
Generator<Step> spread_steps(Collective collective, RankContext context) {
  const int n = context.ranks, self = context.rank;
  const Shape shape{collective, n, context.root, blocks(collective, n)};
  const PeerOrder order(context);
  for (int k = 1; k < n; ++k) {
    const Rank peer = order.after(k);
    const Run given = shared_blocks(shape, self, peer);
    for (ChunkId i = 0; i < given.count; ++i) co_yield move(given.at(i), {in(given.at(i))}, {to(peer)});
  }
  const Run taken = held_blocks(shape, Buffer::kOut, self);
  for (ChunkId i = 0; i < taken.count; ++i) {
    const ChunkId block = rotated(taken, order, context, i);
    const Run givers = contributors(shape, block);
    Operands sources;
    for (ChunkId g = 0; g < givers.count; ++g) {
      const auto giver = static_cast<Rank>(givers.at(g));
      sources.push_back(giver == self ? in(block) : from(giver));
    }
    co_yield move(block, sources, {out(block)});
  }
}

// Chunk c goes from everybody straight to rank c, which sums it and sends the sum straight to everybody.
// Steps: 2(n-1) sends. Bytes sent per rank: 2(n-1)/n of the message, as in a ring, but in two hops.
Generator<Step> all_pairs_steps(RankContext context) {
  const int n = context.ranks, self = context.rank;
  const PeerOrder order(context);
  for (int k = 1; k < n; ++k) {
    const Rank owner = order.after(k);
    co_yield move(owner, {in(owner)}, {to(owner)});
  }
  Operands inputs, outputs{out(self)};
  for (Rank r = 0; r < n; ++r) inputs.push_back(r == self ? in(self) : from(r));
  for (int k = 1; k < n; ++k) outputs.push_back(to(order.after(k)));
  co_yield move(self, inputs, outputs);
  for (int k = 1; k < n; ++k) {
    const Rank owner = order.before(k);
    co_yield move(owner, {from(owner)}, {out(owner)});
  }
}

// In step k every rank sends to the k-th one after it and receives from the k-th one before it: one partner at a time.
// Steps: n-1 exchanges. Bytes sent per rank: (n-1)/n of the message.
Generator<Step> pairwise_steps(RankContext context) {
  const ChunkId n = context.ranks, self = context.rank;  // wide enough for chunks
  const PeerOrder order(context);
  const bool by_node = PeerOrder::even(context);  // otherwise two ranks could send to the same one in a step
  co_yield move(self * n + self, {in(self * n + self)}, {out(self * n + self)});
  for (int k = 1; k < n; ++k) {
    const Rank after = by_node ? order.after(k) : static_cast<Rank>((self + k) % n),
               before = by_node ? order.before(k) : static_cast<Rank>((self - k + n) % n);
    co_yield move(self * n + after, {in(self * n + after)}, {to(after)});
    co_yield move(before * n + self, {from(before)}, {out(before * n + self)});
  }
}

template <Collective kCollective>
Algorithm spread_of(std::string_view when) {
  return {.name = kCollective == Collective::kAllReduce ? "one_shot" : "spread",
          .collective = kCollective,
          .when = when,
          .source = "the direct algorithm; for all_reduce, TensorRT-LLM and vLLM custom all-reduce call it one-shot",
          .in_order = true,
          .uneven = true,
          .steps = [](RankContext context) { return spread_steps(kCollective, context); },
          .rotation = rooted(kCollective) || kCollective == Collective::kSendReceive ? nullptr : PeerOrder::rotation,
          .growth = kCollective == Collective::kSendReceive ? Growth::kUnknown : Growth::kAboutPerNode};
}

}  // namespace

std::vector<Algorithm> spread() {
  return {spread_of<Collective::kAllReduce>("smallest messages and few ranks: a single hop"),
          spread_of<Collective::kBroadcast>("small messages and few ranks: a single hop"),
          spread_of<Collective::kReduce>("small messages and few ranks: a single hop; sums in rank order"),
          spread_of<Collective::kAllGather>("fully connected ranks: a single hop"),
          spread_of<Collective::kReduceScatter>("fully connected ranks: a single hop; sums in rank order"),
          spread_of<Collective::kAllToAll>("fully connected ranks: all parts at once"),
          spread_of<Collective::kGather>("few ranks, or large parts: a single hop"),
          spread_of<Collective::kScatter>("few ranks, or large parts: a single hop"),
          spread_of<Collective::kSendReceive>("always: one message")};
}

Algorithm all_pairs_all_reduce() {
  return {.name = "all_pairs",
          .collective = Collective::kAllReduce,
          .when = "fully connected ranks, medium and large messages: two hops, least bytes; sums in rank order",
          .source = "reduce-scatter and all-gather by direct messages; MSCCL's allpairs",
          .in_order = true,
          .chunks = [](const RankContext& s) { return static_cast<int>(s.ranks); },
          .steps = all_pairs_steps,
          .rotation = PeerOrder::rotation,
          .growth = Growth::kPerNode};
}

Algorithm pairwise_all_to_all() {
  return {
      .name = "pairwise",
      .collective = Collective::kAllToAll,
      .when = "large parts where every rank has one port: one partner at a time, no incast",
      .source = "Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, 2005",
      .uneven = true,
      .steps = pairwise_steps,
      .rotation = PeerOrder::rotation,
      .growth = Growth::kPerNode};
}

}  // namespace weft::collectives
