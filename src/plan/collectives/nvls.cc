#include "plan/collectives/nvls.h"

#include "plan/collectives/double_binary_tree.h"
#include "plan/collectives/rotations.h"
#include "plan/collectives/subset.h"

namespace weft::collectives {

using namespace schedule;

namespace {

// A node, its ranks as the switch sees them, and where its peers reach its memory.
struct Node {
  explicit Node(const RankContext& s)
      : size(s.ranks % s.ranks_per_node == 0 ? s.ranks_per_node : s.ranks),
        count(s.ranks / size),
        number(s.rank / size),
        place(s.rank % size),
        staged(s.staged),
        group{number * size, size, 1} {}

  Rank at(Rank of_node, Rank of_place) const { return (of_node + count) % count * size + of_place; }
  Operand reduced(int chunk) const { return everywhere(group, staged ? scratch(chunk) : in(chunk)); }
  Operand multicast(int chunk) const { return everywhere(group, staged ? scratch(chunk) : out(chunk)); }
  Group rail() const { return {place, count, size}; }

  Rank size, count, number, place;
  bool staged;
  Group group;
};

// All ranks of the node have come as far as this.
Generator<Step> meet(Node node) {
  for (Rank k = 1; k < node.size; ++k) co_yield signal(node.at(node.number, (node.place + k) % node.size));
  for (Rank k = 1; k < node.size; ++k) co_yield wait(node.at(node.number, (node.place + k) % node.size));
}

Generator<Step> copy_chunks(int count, Operand (*source)(ChunkId), Operand (*target)(ChunkId)) {
  for (int c = 0; c < count; ++c) co_yield move(c, {source(c)}, {target(c)});
}

// Rank h of a node loads shard h of all its ranks' inputs, summed by the switch; with several nodes the network's
// switches sum over the rail; the result is stored into all outputs of the node at once.
// Steps: 4(ranks per node - 1) signals and waits, one or two moves. Bytes over a rank's port: the message out (to be
// summed), as much in: half of a ring's.
Generator<Step> all_reduce_steps(RankContext context) {
  const Node node(context);
  const int own = node.place, chunks = node.size;
  const bool up = context.lane == 0;
  if (node.staged && up) {
    auto copy = copy_chunks(chunks, in, scratch);
    while (const Step* step = copy.next()) co_yield *step;
  }
  if (node.count == 1) {
    if (!up) co_return;
    auto before = meet(node);
    while (const Step* step = before.next()) co_yield *step;
    co_yield move(own, {node.reduced(own)}, {node.multicast(own)});
  } else {
    auto before = meet(node);
    while (const Step* step = before.next()) co_yield *step;
    if (up)
      co_yield move(own, {node.reduced(own)}, {into(node.rail(), 1)});
    else
      co_yield move(own, {sum_of(node.rail())}, {node.multicast(own)});
  }
  auto after = meet(node);
  while (const Step* step = after.next()) co_yield *step;
  if (node.staged && up == (node.count == 1)) {
    auto copy = copy_chunks(chunks, scratch, out);
    while (const Step* step = copy.next()) co_yield *step;
  }
}

// The same, but the heads of all nodes form double binary trees, one pair per shard.
// Critical path: 2 log2(nodes) hops and the switch twice. Bytes into the network per rank: at most 2/ranks per node of
// the message, twice.
Generator<Step> tree_steps(RankContext context) {
  const Node node(context);
  const int tree = context.lane / 2, down = 2 * tree + 1, own = tree * node.size + node.place;
  const bool up = context.lane % 2 == 0;
  const Vertex v = double_binary_tree(node.number, node.count, tree);
  if (!up && v.parent < 0) co_return;  // the root's node has the result from the way up
  if (node.staged && up) {
    for (int c = tree * node.size; c < (tree + 1) * node.size; ++c) co_yield move(c, {in(c)}, {scratch(c)});
  }
  auto before = meet(node);
  while (const Step* step = before.next()) co_yield *step;
  Operands sources, targets;
  if (up) {
    for (const Rank child : v.children) sources.push_back(from(node.at(child, node.place)));
    sources.push_back(node.reduced(own));
    if (v.parent >= 0) {
      targets.push_back(to(node.at(v.parent, node.place)));
    } else {
      targets.push_back(node.multicast(own));
      for (const Rank child : v.children) targets.push_back(to(node.at(child, node.place), down));
    }
    co_yield move(own, sources, targets);
  } else if (v.parent >= 0) {
    targets.push_back(node.multicast(own));
    for (const Rank child : v.children) targets.push_back(to(node.at(child, node.place)));
    co_yield move(own, {from(node.at(v.parent, node.place))}, targets);
  }
  auto after = meet(node);
  while (const Step* step = after.next()) co_yield *step;
  // The root's node gets its result in the way up, the others in the way down.
  if (node.staged && up == (v.parent < 0))
    for (int c = tree * node.size; c < (tree + 1) * node.size; ++c) co_yield move(c, {scratch(c)}, {out(c)});
}

// Every part is multicast in its own node; with several nodes it runs around its rail's ring, and is multicast in every
// node that it comes to. Bytes sent over a rank's port: 1/n of the message per node.
Generator<Step> all_gather_steps(RankContext context) {
  const Node node(context);
  auto before = meet(node);
  while (const Step* step = before.next()) co_yield *step;
  const Rank last = context.repeated(node.count - 2) + 1;
  for (Rank k = 0; k <= last; ++k) {
    const int c = node.at(node.number - k, node.place);
    Operands targets{node.multicast(c)};
    if (k < last) targets.push_back(to(node.at(node.number + 1, node.place)));
    co_yield move(c, {k == 0 ? in(c) : from(node.at(node.number - 1, node.place))}, targets);
  }
  auto after = meet(node);
  while (const Step* step = after.next()) co_yield *step;
  if (node.staged) {
    auto copy = copy_chunks(context.ranks, scratch, out);
    while (const Step* step = copy.next()) co_yield *step;
  }
}

// The switch sums every part that belongs to the rank's rail; with several nodes the sums run around the rail's ring.
Generator<Step> reduce_scatter_steps(RankContext context) {
  const Node node(context);
  if (node.staged) {
    auto copy = copy_chunks(context.ranks, in, scratch);
    while (const Step* step = copy.next()) co_yield *step;
  }
  auto before = meet(node);
  while (const Step* step = before.next()) co_yield *step;
  const Rank last = context.repeated(node.count - 2) + 2;
  for (Rank k = 1; k <= last; ++k) {
    const int c = node.at(node.number - k, node.place);
    Operands sources;
    if (k > 1) sources.push_back(from(node.at(node.number - 1, node.place)));
    sources.push_back(node.reduced(c));
    co_yield move(c, sources, {k == last ? out(c) : to(node.at(node.number + 1, node.place))});
  }
  auto after = meet(node);
  while (const Step* step = after.next()) co_yield *step;
}

// Where the root has its place in the node; its rail forms a chain of nodes.
struct Chain {
  Chain(const Node& node, Rank root)
      : place(root % node.size), behind((node.number - root / node.size + node.count) % node.count) {}
  Rank place, behind;
};

// A chain from node to node along the root's rail, with a multicast in each.
Generator<Step> broadcast_steps(RankContext context) {
  const Node node(context);
  const Chain chain(node, context.root);
  auto before = meet(node);
  while (const Step* step = before.next()) co_yield *step;
  if (node.place == chain.place) {
    Operands targets{node.multicast(0)};
    if (chain.behind + 1 < node.count) targets.push_back(to(node.at(node.number + 1, node.place)));
    co_yield move(0, {chain.behind == 0 ? in(0) : from(node.at(node.number - 1, node.place))}, targets);
  }
  auto after = meet(node);
  while (const Step* step = after.next()) co_yield *step;
  if (node.staged) co_yield move(0, {scratch(0)}, {out(0)});
}

// Summed by the switch in every node, and from node to node towards the root.
Generator<Step> reduce_steps(RankContext context) {
  const Node node(context);
  const Chain chain(node, context.root);
  if (node.staged) co_yield move(0, {in(0)}, {scratch(0)});
  auto before = meet(node);
  while (const Step* step = before.next()) co_yield *step;
  if (node.place == chain.place) {
    Operands sources;
    if (chain.behind + 1 < node.count) sources.push_back(from(node.at(node.number + 1, node.place)));
    sources.push_back(node.reduced(0));
    co_yield move(0, sources, {chain.behind == 0 ? out(0) : to(node.at(node.number - 1, node.place))});
  }
  auto after = meet(node);
  while (const Step* step = after.next()) co_yield *step;
}

constexpr std::string_view kSource =
    "NCCL 2.17 (NVLink SHARP); Klenk et al., An in-network architecture for "
    "accelerating shared-memory multiprocessor collectives, ISCA 2020";
constexpr Needs kSwitch{.messages = true, .multicast = true};

int one(const RankContext&) { return 1; }
int places(const RankContext& s) { return Node(s).size; }
int two_trees(const RankContext& s) { return 2 * Node(s).size; }
template <int (*kSlots)(const RankContext&)>
int if_staged(const RankContext& s) {
  return s.staged ? kSlots(s) : 0;
}
int all_ranks(const RankContext& s) { return s.ranks; }
int nodes_between(const RankContext& s) { return Node(s).count - 2; }

}  // namespace

Algorithm nvls_all_reduce() {
  return {.name = "nvls",
          .collective = Collective::kAllReduce,
          .when = "a switch that reduces: half of the bytes; across nodes with reducing switches in the network",
          .source = kSource,
          .needs = {.messages = true, .multicast = true, .aggregation = true},
          .lanes = 2,
          .chunks = places,
          .scratch = if_staged<places>,
          .steps = all_reduce_steps};
}
Algorithm nvls_tree_all_reduce() {
  return {.name = "nvls_tree",
          .collective = Collective::kAllReduce,
          .when =
              "a switch in every node that reduces, in the network none that does: sums meet along a tree of the "
              "nodes, with latency by the logarithm of their number",
          .source = kSource,
          .needs = kSwitch,
          .lanes = 4,
          .chunks = two_trees,
          .scratch = if_staged<two_trees>,
          .steps = tree_steps,
          .growth = Growth::kPerLevel};
}
Algorithm nvls_all_gather() {
  return {.name = "nvls",
          .collective = Collective::kAllGather,
          .when = "a switch that multicasts: every part leaves its rank once",
          .source = kSource,
          .needs = kSwitch,
          .scratch = if_staged<all_ranks>,
          .steps = all_gather_steps,
          .rotation = by_one_node,
          .repeats = nodes_between,
          .growth = Growth::kPerNode};
}
Algorithm nvls_reduce_scatter() {
  return {.name = "nvls",
          .collective = Collective::kReduceScatter,
          .when = "a switch that reduces: every sum enters its rank once",
          .source = kSource,
          .needs = kSwitch,
          .scratch = if_staged<all_ranks>,
          .steps = reduce_scatter_steps,
          .rotation = by_one_node,
          .repeats = nodes_between,
          .growth = Growth::kPerNode};
}
Algorithm nvls_broadcast() {
  return {.name = "nvls",
          .collective = Collective::kBroadcast,
          .when = "a switch that multicasts: one hop",
          .source = kSource,
          .needs = kSwitch,
          .scratch = if_staged<one>,
          .steps = broadcast_steps,
          .growth = Growth::kPerNode};
}
Algorithm nvls_reduce() {
  return {.name = "nvls",
          .collective = Collective::kReduce,
          .when = "a switch that reduces: one hop",
          .source = kSource,
          .needs = kSwitch,
          .scratch = if_staged<one>,
          .steps = reduce_steps,
          .growth = Growth::kPerNode};
}

}  // namespace weft::collectives
