#pragma once

#include "base/small_list.h"
#include "plan/schedule/algorithm.h"

namespace weft::collectives {

// A place in a tree.
struct Vertex {
  Rank parent = -1;  // -1: the root
  SmallList<Rank, 3> children;

  bool operator==(const Vertex&) const = default;
};

// Tree 0 is the in-order binary tree in which every odd vertex is a leaf; tree 1 is its mirror image (even counts) or
// is shifted by one (odd), so that nearly every vertex is inner in only one of them and both together use every link.
// Requires: 0 <= vertex < vertices, tree is 0 or 1.
Vertex double_binary_tree(Rank vertex, Rank vertices, int tree);

// One rank's neighbours: across nodes the double binary tree joins one head per node, inside a node the ranks form a
// chain that starts at the head. Every channel has other heads, so that the channels spread over the NICs. On a single
// node, or with one rank per node, the ranks themselves are the binary tree.
Vertex tree_neighbours(const schedule::RankContext& context, int tree);

// The same across nodes, but inside a node the ranks form a binary tree under the head.
Vertex nested_tree_neighbours(const schedule::RankContext& context, int tree);

schedule::Algorithm double_binary_tree_all_reduce();
schedule::Algorithm nested_tree_all_reduce();

}  // namespace weft::collectives
