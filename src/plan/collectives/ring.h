#pragma once

#include <optional>

#include "plan/collectives/uneven_node_order.h"

namespace weft::collectives {

// The order in which a channel's ring visits the ranks: node after node, even nodes forwards, odd nodes backwards. So a
// ring leaves a node at the local rank where it enters the next: on one rail (but for the last hop of an odd number of
// nodes). Every channel starts at another local rank, so that the channels spread over the rails.
//   channel 0:  0 1 2 3 | 7 6 5 4 | 8 9 …      channel 1:  1 2 3 0 | 4 7 6 5 | 9 10 …
// Where a node's ranks are not all alike to each other, its order is the context's instead of 0 1 2 3. Uneven nodes are
// entered and left on the rails that all of them have (order.h).
class Ring {
 public:
  explicit Ring(const schedule::RankContext& context);

  Rank next() const { return at(1); }
  Rank previous() const { return at(-1); }
  // The rank `distance` positions further on; negative: behind.
  Rank at(int distance) const;
  // This rank's position, counted from the rank at position 0.
  int position() const { return position_; }
  int position_of(Rank rank) const;

 private:
  Rank rank_at(int position) const;
  // Where a local rank is in the node's order, and back.
  int place_of(Rank local) const;
  Rank local_at(int place) const;

  Rank ranks_, per_node_;
  std::optional<UnevenNodeOrder> uneven_;
  const std::vector<Rank>* order_ = nullptr;  // null: by number
  int shift_, position_;
};

schedule::Algorithm ring_all_reduce();
schedule::Algorithm ring_all_gather();
schedule::Algorithm ring_reduce_scatter();
schedule::Algorithm ring_broadcast();
schedule::Algorithm ring_reduce();

}  // namespace weft::collectives
