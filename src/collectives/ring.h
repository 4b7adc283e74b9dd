#pragma once

#include "schedule/algorithm.h"

namespace weft::collectives {

// The order in which a channel's ring visits the ranks: node after node; inside a node every channel starts at
// another rank, so that each leaves and enters nodes through another NIC.
class Ring {
 public:
  explicit Ring(const schedule::Story& story);

  Rank next() const { return at(1); }
  Rank previous() const { return at(-1); }
  // The rank `distance` positions further on; negative: behind.
  Rank at(int distance) const;
  // This rank's position, counted from the rank at position 0.
  int position() const { return position_; }
  int position_of(Rank rank) const;

 private:
  Rank ranks_, per_node_;
  int shift_, position_;
};

schedule::Algorithm ring_all_reduce();
schedule::Algorithm ring_all_gather();
schedule::Algorithm ring_reduce_scatter();
schedule::Algorithm ring_broadcast();

}  // namespace weft::collectives
