#pragma once

#include "plan/schedule/algorithm.h"

namespace weft::collectives {

// Values of Algorithm::rotation: of schedules that know peers only by their distance, …
inline Rank by_one_rank(const schedule::RankContext&) { return 1; }
// … or by their node's distance and their place in it. Nodes filled unevenly count as one.
inline Rank by_one_node(const schedule::RankContext& s) {
  return s.ranks % s.ranks_per_node == 0 ? s.ranks_per_node : s.ranks;
}

// The value of Algorithm::orders of schedules that begin at another one of a node's ranks on every channel.
inline int head_by_channel(const schedule::RankContext& s) {
  return s.nodes != nullptr ? static_cast<int>(s.nodes->common.size()) : s.ranks_per_node;
}

}  // namespace weft::collectives
