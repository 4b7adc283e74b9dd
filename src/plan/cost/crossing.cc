#include "plan/cost/crossing.h"

#include <utility>
#include <vector>

namespace weft::cost {

void count_tokens(const schedule::TokenRoutes& routes, std::span<const std::int32_t> set_of, std::span<RankSet*> sets) {
  const double share = 1 / static_cast<double>(routes.tokens());
  const auto set = [&](Rank r) { return set_of[static_cast<std::size_t>(r)]; };
  std::vector<schedule::ChunkId> latest(sets.size(), -1);  // token that a set was counted for
  for (schedule::ChunkId token = 0; token < routes.tokens(); ++token) {
    const std::int32_t home = set(routes.owner(token));
    bool leaves = false;
    for (const Rank to : routes.of(token)) {
      const auto there = static_cast<std::size_t>(set(to));
      if (set(to) == home || std::exchange(latest[there], token) == token) continue;
      sets[there]->taken += share;
      leaves = true;
    }
    if (leaves) sets[static_cast<std::size_t>(home)]->sent += share;
  }
}

void count_pairs(std::span<const Bytes> counts, Bytes element_bytes, std::span<const std::int32_t> set_of,
                 std::span<RankSet*> sets) {
  const std::size_t ranks = set_of.size();
  for (std::size_t from = 0; from < ranks; ++from)
    for (std::size_t to = 0; to < ranks; ++to) {
      if (set_of[from] == set_of[to]) continue;
      const auto bytes = static_cast<double>(counts[from * ranks + to] * element_bytes);
      sets[static_cast<std::size_t>(set_of[from])]->sent += bytes;
      sets[static_cast<std::size_t>(set_of[to])]->taken += bytes;
    }
}

Crossing crossing(Collective collective, Rank ranks, const RankSet& set, double bytes) {
  const double inside = set.ranks, n = ranks, outside = n - inside;
  if (inside <= 0 || outside <= 0) return {};
  const bool uneven = schedule::uneven(collective);
  const double own = uneven ? set.own : bytes * inside / n, others = bytes - own;
  switch (collective) {
    case Collective::kAllReduce:
      return {bytes, bytes};
    case Collective::kBroadcast:
      return set.has_root ? Crossing{bytes, 0} : Crossing{0, bytes};
    case Collective::kReduce:
      return set.has_root ? Crossing{0, bytes} : Crossing{bytes, 0};
    case Collective::kAllGather:
    case Collective::kAllGatherV:
      return {own, others};
    case Collective::kReduceScatter:
    case Collective::kReduceScatterV:
      return {others, own};
    case Collective::kAllToAll:
      return {own * outside, own * outside};
    case Collective::kGather:
      return set.has_root ? Crossing{0, others} : Crossing{own, 0};
    case Collective::kScatter:
      return set.has_root ? Crossing{others, 0} : Crossing{0, own};
    case Collective::kSendReceive:
      return {bytes * set.senders, bytes * set.senders};
    case Collective::kDispatch:
      return {bytes * set.sent, bytes * set.taken};
    case Collective::kCombine:
      return {bytes * set.taken, bytes * set.sent};
    case Collective::kAllToAllV:
      return {set.sent, set.taken};
    case Collective::kBarrier:
      return {};
  }
  return {};
}

}  // namespace weft::cost
