#pragma once

#include "plan/schedule/algorithm.h"

namespace weft::collectives {

// The order in which a rank exchanges messages with all others: node by node, its own node first. In every node it
// begins with the rank at its own place and goes round from there. So the ranks of a node send through all NICs of the
// next node at once; in the order of rank numbers they would all send to one rank of it, through one NIC.
//   Bytes and messages are those of any other order. Where nodes are equal, every step is a permutation of the ranks.
class PeerOrder {
 public:
  explicit PeerOrder(const schedule::RankContext& context)
      : nodes_(context.nodes), per_node_(context.ranks_per_node), ranks_(context.ranks), self_(context.rank) {}

  // Requires of `k`: from 0 (the rank itself) to ranks - 1. The receiver of the rank's k-th message …
  Rank after(Rank k) const {
    const Rank at = (first_of(self_) + k) % ranks_, first = first_of(at);
    return first + (self_ - first_of(self_) + at - first) % (end_of(at) - first);
  }
  // … and, where nodes are equal, the rank whose k-th message is for this one. Otherwise all ranks, each once, in an
  // order that runs against the other.
  Rank before(Rank k) const {
    const Rank at = (end_of(self_) - 1 - k + ranks_) % ranks_, first = first_of(at), size = end_of(at) - first;
    return first + ((self_ - first_of(self_) + at + 1 - end_of(at)) % size + size) % size;
  }

  // Nodes are equal, so that every step is a permutation.
  static bool even(const schedule::RankContext& s) { return s.nodes == nullptr && s.ranks % s.ranks_per_node == 0; }
  // The value of Algorithm::rotation. On a single node ranks know each other by their distance only.
  static Rank rotation(const schedule::RankContext& s) {
    if (!even(s)) return 0;
    return s.ranks_per_node == s.ranks ? 1 : s.ranks_per_node;
  }

 private:
  // The ranks of a rank's node: from the first one to the one before the end.
  Rank first_of(Rank rank) const {
    return nodes_ != nullptr ? nodes_->at(nodes_->first, nodes_->node_of(rank)) : rank / per_node_ * per_node_;
  }
  Rank end_of(Rank rank) const {
    return nodes_ != nullptr ? nodes_->at(nodes_->first, nodes_->node_of(rank) + 1)
                             : std::min(ranks_, (rank / per_node_ + 1) * per_node_);
  }

  const schedule::UnevenNodes* nodes_;
  Rank per_node_, ranks_, self_;
};

}  // namespace weft::collectives
