#include "plan/collectives/collnet.h"

#include "plan/collectives/subset.h"

namespace weft::collectives {

using namespace schedule;

namespace {

enum Lane { kUp, kDown };

// Inside a node the ranks form a chain that ends at a head, another one on every channel. Sums run along the chain to
// the head, the switch sums those of all nodes, and the result runs back. Up and down are separate lanes, so that
// slices of the result return while later ones still climb.
// Critical path: 2 (ranks per node - 1) hops and the switch. Bytes a node sends into the network: the message.
Generator<Step> chain_steps(RankContext context) {
  const Grid grid(context);
  const Rank size = grid.columns, row = grid.row(context.rank);
  const Rank head = context.channel % size;
  const Rank place = (grid.column(context.rank) - head + size) % size;  // 0: the head
  const auto at = [&](Rank p) { return grid.at(row, (head + p) % size); };
  const Group rail = grid.column_group(at(0));
  if (context.lane == kUp) {
    Operands sources{in(0)};
    if (place + 1 < size) sources.push_back(from(at(place + 1)));
    co_yield move(0, sources, {place == 0 ? into(rail, kDown) : to(at(place - 1))});
  } else {
    Operands targets{out(0)};
    if (place + 1 < size) targets.push_back(to(at(place + 1)));
    co_yield move(0, {place == 0 ? sum_of(rail) : from(at(place - 1))}, targets);
  }
}

// Every rank of a node is the head of one shard: it sums the shard for the node, the switch on its rail sums those of
// all nodes, and it gives the result to its neighbours.
// Critical path: 2 hops and the switch. Bytes a rank sends into the network: 1/ranks per node of the message.
Generator<Step> direct_steps(RankContext context) {
  const Grid grid(context);
  const Subset node = grid.row_of(context.rank);
  const Group rail = grid.column_group(context.rank);
  const int own = node.me;
  if (context.lane == kUp) {
    for (int k = 1; k < node.size(); ++k) {
      const int head = (own + k) % node.size();
      co_yield move(head, {in(head)}, {to(node.at(head))});
    }
    Operands sources;
    for (int i = 0; i < node.size(); ++i) sources.push_back(i == own ? in(own) : from(node.at(i)));
    co_yield move(own, sources, {into(rail, kDown)});
  } else {
    Operands targets{out(own)};
    for (int k = 1; k < node.size(); ++k) targets.push_back(to(node.at(own + k)));
    co_yield move(own, {sum_of(rail)}, targets);
    for (int k = 1; k < node.size(); ++k) {
      const int head = (own - k + node.size()) % node.size();
      co_yield move(head, {from(node.at(head))}, {out(head)});
    }
  }
}

constexpr std::string_view kSource =
    "Graham et al., Scalable hierarchical aggregation protocol (SHArP), COMHPC 2016; NCCL's CollNet";

}  // namespace

Algorithm collnet_chain_all_reduce() {
  return {.name = "collnet_chain",
          .collective = Collective::kAllReduce,
          .when = "a network whose switches reduce, nodes without all-to-all links",
          .source = kSource,
          .needs = {.aggregation = true},
          .lanes = 2,
          .chunks = [](const RankContext&) { return 1; },
          .steps = chain_steps,
          .orders = [](const RankContext& s) { return static_cast<int>(Grid(s).columns); }};
}

Algorithm collnet_direct_all_reduce() {
  return {.name = "collnet_direct",
          .collective = Collective::kAllReduce,
          .when = "a network whose switches reduce, nodes with all-to-all links: every NIC at once",
          .source = kSource,
          .needs = {.aggregation = true},
          .lanes = 2,
          .chunks = [](const RankContext& s) { return static_cast<int>(Grid(s).columns); },
          .steps = direct_steps};
}

}  // namespace weft::collectives
