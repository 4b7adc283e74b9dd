#include "plan/collectives/double_binary_tree.h"

#include <bit>

#include "plan/collectives/rotations.h"
#include "plan/collectives/uneven_node_order.h"

namespace weft::collectives {

using namespace schedule;

namespace {

//        0
//        └──── 4          ranks 0 … 7: the lowest set bit of a rank is its height
//          2 ──┴── 6
//         1 3     5 7
Vertex in_order_tree(Rank rank, Rank ranks) {
  const auto n = static_cast<unsigned>(ranks);
  const auto r = static_cast<unsigned>(rank);
  const unsigned height = r == 0 ? std::bit_ceil(n) : r & (~r + 1);
  Vertex v;
  if (r != 0) {
    const unsigned up = (r ^ height) | (height << 1);
    v.parent = static_cast<Rank>(up < n ? up : r ^ height);
  }
  if (height > 1) {
    if (r >= height / 2 && r != 0) v.children.push_back(static_cast<Rank>(r - height / 2));
    unsigned low = height / 2;
    while (low > 0 && r + low >= n) low /= 2;
    if (low > 0) v.children.push_back(static_cast<Rank>(r + low));
  }
  return v;
}

enum Direction { kUp, kDown };
constexpr int kLanes = 4;  // two trees, each with a way up and a way down that run at the same time
int lane_of(int tree, Direction direction) { return 2 * tree + direction; }

// Half of the message climbs each tree, summed at every vertex; the root's sum descends again. Up and down are separate
// lanes, so that slices of the result descend while later slices still climb.
// Steps: 1 per lane; critical path 2 (log2(nodes) + ranks per node) hops. Bytes sent per rank: at most two messages.
Generator<Step> all_reduce_steps(RankContext context, Vertex (*neighbours)(const RankContext&, int)) {
  const int tree = context.lane / 2;
  const int down = lane_of(tree, kDown);
  const Vertex v = neighbours(context, tree);
  Operands sources, destinations;
  if (context.lane != down) {
    for (Rank child : v.children) sources.push_back(from(child));
    sources.push_back(in(tree));
    if (v.parent >= 0) {
      destinations.push_back(to(v.parent));
    } else {  // the root turns the sum round
      destinations.push_back(out(tree));
      for (Rank child : v.children) destinations.push_back(to(child, down));
    }
  } else if (v.parent >= 0) {
    sources.push_back(from(v.parent));
    destinations.push_back(out(tree));
    for (Rank child : v.children) destinations.push_back(to(child));
  } else {
    co_return;
  }
  co_yield move(tree, sources, destinations);
}

}  // namespace

namespace {

// Nodes with the same number of ranks, as one channel sees them: its heads are at step 0.
class EvenNodes {
 public:
  explicit EvenNodes(const RankContext& context) : per_node_(context.ranks_per_node), channel_(context.channel) {}

  Rank node_of(Rank rank) const { return rank / per_node_; }
  Rank size(Rank) const { return per_node_; }
  Rank step_of(Rank rank) const { return ((rank - channel_) % per_node_ + per_node_) % per_node_; }
  Rank at(Rank node, Rank step) const { return node * per_node_ + (step + channel_) % per_node_; }

 private:
  Rank per_node_, channel_;
};

// `inside`: the tree of the ranks of one node, by step and number of ranks; step 0 is the head.
template <class Nodes, class Inside>
Vertex joined_at_heads(const RankContext& context, int tree, const Nodes& nodes, Inside&& inside) {
  const Rank count = nodes.node_of(context.ranks - 1) + 1, node = nodes.node_of(context.rank);
  const Rank step = nodes.step_of(context.rank);
  Vertex v;
  const Vertex local = inside(step, nodes.size(node));
  if (step > 0) {
    v.parent = nodes.at(node, local.parent);
  } else {
    const Vertex heads = double_binary_tree(node, count, tree);
    if (heads.parent >= 0) v.parent = nodes.at(heads.parent, 0);
    for (const Rank child : heads.children) v.children.push_back(nodes.at(child, 0));
  }
  for (const Rank child : local.children) v.children.push_back(nodes.at(node, child));
  return v;
}

Vertex chain(Rank step, Rank ranks) {
  Vertex v{.parent = step - 1, .children = {}};
  if (step + 1 < ranks) v.children.push_back(step + 1);
  return v;
}

bool even_nodes(const RankContext& s) { return s.ranks % s.ranks_per_node == 0; }

}  // namespace

Vertex tree_neighbours(const RankContext& context, int tree) {
  if (context.nodes != nullptr)
    return joined_at_heads(context, tree, UnevenNodeOrder(*context.nodes, context.channel), chain);
  const Rank per_node = context.ranks_per_node;
  if (per_node == 1 || context.ranks <= per_node || !even_nodes(context))
    return double_binary_tree(context.rank, context.ranks, tree);
  return joined_at_heads(context, tree, EvenNodes(context), chain);
}

Vertex nested_tree_neighbours(const RankContext& context, int tree) {
  if (context.nodes != nullptr)
    return joined_at_heads(context, tree, UnevenNodeOrder(*context.nodes, context.channel), in_order_tree);
  if (!even_nodes(context)) return double_binary_tree(context.rank, context.ranks, tree);
  return joined_at_heads(context, tree, EvenNodes(context), in_order_tree);
}

Vertex double_binary_tree(Rank rank, Rank ranks, int tree) {
  if (tree == 0) return in_order_tree(rank, ranks);
  const bool mirror = ranks % 2 == 0;
  const auto to_first = [&](Rank r) { return mirror ? ranks - 1 - r : (r - 1 + ranks) % ranks; };
  const auto to_second = [&](Rank r) { return mirror ? ranks - 1 - r : (r + 1) % ranks; };
  Vertex v = in_order_tree(to_first(rank), ranks);
  if (v.parent >= 0) v.parent = to_second(v.parent);
  for (Rank& child : v.children) child = to_second(child);
  return v;
}

Algorithm double_binary_tree_all_reduce() {
  return {
      .name = "tree",
      .collective = Collective::kAllReduce,
      .when = "many ranks and small to medium messages: latency grows with the logarithm of the ranks",
      .source =
          "Sanders, Speck and Traeff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, 2009; NCCL",
      .lanes = kLanes,
      .chunks = [](const RankContext&) { return 2; },
      .steps = [](RankContext context) { return all_reduce_steps(context, tree_neighbours); },
      .orders = head_by_channel,
      .growth = Growth::kPerLevel};
}

Algorithm nested_tree_all_reduce() {
  return {.name = "coll_tree",
          .collective = Collective::kAllReduce,
          .when = "nodes with many ranks and small messages: logarithmic latency inside the nodes too",
          .source =
              "hierarchical two-level trees; Karonis et al., Exploiting hierarchy in parallel computer networks, 2000",
          .lanes = kLanes,
          .chunks = [](const RankContext&) { return 2; },
          .steps = [](RankContext context) { return all_reduce_steps(context, nested_tree_neighbours); },
          .orders = head_by_channel,
          .growth = Growth::kPerLevel};
}

}  // namespace weft::collectives
