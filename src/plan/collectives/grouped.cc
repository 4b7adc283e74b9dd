#include "plan/collectives/grouped.h"

#include "plan/collectives/peer_order.h"

namespace weft::collectives {

using namespace schedule;

namespace {

constexpr int kPeersAtOnce = 8;

// Sends and receives that are started together, as NCCL does between ncclGroupStart and ncclGroupEnd: the k-th peer has
// connection k modulo eight, and of every connection one lane sends while another one receives.
// Steps: one send and one receive per peer. Bytes sent per rank: what the peers want of it.
Generator<Step> grouped_steps(Collective collective, RankContext context) {
  const int n = context.ranks, self = context.rank, connection = context.lane / 2;
  const bool sends = context.lane % 2 == 0;
  const Shape shape{collective, n, context.root, blocks(collective, n)};
  const PeerOrder order(context);
  const bool by_node = PeerOrder::even(context);  // otherwise a pair would not agree on its connection
  for (int k = connection; k < n; k += kPeersAtOnce) {
    const Rank after = by_node ? order.after(k) : static_cast<Rank>((self + k) % n),
               before = by_node ? order.before(k) : static_cast<Rank>((self - k + n) % n);
    const Run given = shared_blocks(shape, self, after), taken = shared_blocks(shape, before, self);
    for (ChunkId i = 0; k == 0 && sends && i < given.count; ++i)
      co_yield move(given.at(i), {in(given.at(i))}, {out(given.at(i))});
    for (ChunkId i = 0; k > 0 && sends && i < given.count; ++i)
      co_yield move(given.at(i), {in(given.at(i))}, {to(after, 0)});
    for (ChunkId i = 0; k > 0 && !sends && i < taken.count; ++i)
      co_yield move(taken.at(i), {from(before, 0)}, {out(taken.at(i))});
  }
}

template <Collective kCollective>
Algorithm grouped_of() {
  return {.name = "grouped",
          .collective = kCollective,
          .when = "eight peers at once, each by a thread block of its own: what NCCL does",
          .source = "NCCL 2.30.7, src/enqueue.cc and src/device/sendrecv.h: sends and receives of a group",
          .in_order = true,
          .uneven = true,
          .lanes = 2 * kPeersAtOnce,
          .lanes_of_block = 2,
          .connections = 1,  // two ranks are each other's k-th peer for one k only
          .steps = [](RankContext context) { return grouped_steps(kCollective, context); },
          .rotation = kCollective == Collective::kAllToAll ? PeerOrder::rotation : nullptr,
          .growth = kCollective == Collective::kSendReceive ? Growth::kUnknown : Growth::kAboutPerNode};
}

}  // namespace

std::vector<Algorithm> grouped() {
  return {grouped_of<Collective::kAllToAll>(), grouped_of<Collective::kGather>(), grouped_of<Collective::kScatter>(),
          grouped_of<Collective::kSendReceive>()};
}

}  // namespace weft::collectives
