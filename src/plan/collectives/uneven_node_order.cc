#include "plan/collectives/uneven_node_order.h"

#include <algorithm>

namespace weft::collectives {

bool UnevenNodeOrder::is_common(Rank rank) const {
  return std::ranges::binary_search(nodes_.common, nodes_.at(nodes_.places, rank));
}

Rank UnevenNodeOrder::step_of(Rank rank) const {
  const Rank node = node_of(rank);
  const auto before = static_cast<Rank>(std::ranges::lower_bound(nodes_.common, nodes_.at(nodes_.places, rank)) -
                                        nodes_.common.begin());
  if (!is_common(rank)) return leading() + (rank - first(node) - before);
  const Rank step = (before - channel_ % common() + common()) % common();
  return step < leading() ? step : size(node) - 1;
}

Rank UnevenNodeOrder::at(Rank node, Rank step) const {
  const Rank of_common = step < leading() ? step : step == size(node) - 1 ? leading() : common();
  const auto begin = nodes_.places.begin() + first(node), end = begin + size(node);
  if (of_common < common()) {
    const Rank place = nodes_.at(nodes_.common, (channel_ + of_common) % common());
    return first(node) + static_cast<Rank>(std::lower_bound(begin, end, place) - begin);
  }
  Rank rank = first(node);
  for (Rank others = step - leading(); is_common(rank) || others-- > 0;) ++rank;
  return rank;
}

}  // namespace weft::collectives
