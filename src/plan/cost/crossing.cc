#include "plan/cost/crossing.h"

namespace weft::cost {

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
    case Collective::kAllToAllV:
    case Collective::kBarrier:
      return {};
  }
  return {};
}

}  // namespace weft::cost
