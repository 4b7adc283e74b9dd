#pragma once

#include "plan/schedule/algorithm.h"

namespace weft::collectives {

// How one channel passes through uneven nodes: it enters each at one of the places that all of them have and leaves at
// the one before, so that between nodes it keeps to its rail; what else a node has comes just before the last.
//   common places 0 1 2, a node with 0 1 2 3:  channel 0:  0 1 3 2     channel 1:  1 2 3 0
class UnevenNodeOrder {
 public:
  // `nodes` must outlive it.
  UnevenNodeOrder(const schedule::UnevenNodes& nodes, int channel) : nodes_(nodes), channel_(channel) {}

  // Requires, as below: ranks, nodes and steps that there are.
  Rank node_of(Rank rank) const { return nodes_.node_of(rank); }
  Rank first(Rank node) const { return nodes_.at(nodes_.first, node); }
  Rank size(Rank node) const { return nodes_.size(node); }
  // When a rank is passed in its node: 0 is where the channel enters; and back.
  Rank step_of(Rank rank) const;
  Rank at(Rank node, Rank step) const;

 private:
  Rank common() const { return static_cast<Rank>(nodes_.common.size()); }
  // Common places that are passed before the others.
  Rank leading() const { return common() >= 2 ? common() - 1 : common(); }
  bool is_common(Rank rank) const;

  const schedule::UnevenNodes& nodes_;
  int channel_;
};

}  // namespace weft::collectives
