#pragma once

#include "base/small_list.h"
#include "schedule/algorithm.h"

namespace weft::collectives {

// One rank's place in a binary tree.
struct Vertex {
  Rank parent = -1;  // -1: the root
  SmallList<Rank, 2> children;

  bool operator==(const Vertex&) const = default;
};

// Tree 0 is the in-order binary tree in which every odd rank is a leaf; tree 1 is its mirror image (even rank counts) or
// is shifted by one (odd), so that a rank is inner in at most one of them and both together use every link.
// Requires: 0 <= rank < ranks, tree is 0 or 1.
Vertex double_binary_tree(Rank rank, Rank ranks, int tree);

schedule::Algorithm double_binary_tree_all_reduce();

}  // namespace weft::collectives
