#include "plan/collectives/experts.h"

#include <algorithm>

#include "plan/collectives/subset.h"

namespace weft::collectives {

using namespace schedule;

namespace {

// The routes as a rank sees them. Strands go through the tokens by their number on their ranks, the same one of all
// ranks before the next: so a rank that waits for a token waits for nobody who waits for a later one.
class Tokens {
 public:
  explicit Tokens(const RankContext& context) : routes_(or_shown(context.routes, context.ranks)) {}

  ChunkId each() const { return routes_.tokens_per_rank(); }
  ChunkId number(Rank owner, ChunkId i) const { return owner * each() + i; }
  std::span<const Rank> of(ChunkId token) const { return routes_.of(token); }
  bool goes(ChunkId token, Rank rank) const { return routes_.goes(token, rank); }
  // Returns the token's ranks that belong to a row of the grid.
  std::span<const Rank> within(ChunkId token, Rank row, Rank columns) const {
    const auto all = of(token);
    const auto first = std::ranges::lower_bound(all, row * columns),
               last = std::ranges::lower_bound(all, (row + 1) * columns);
    return {first, last};
  }

 private:
  const TokenRoutes& routes_;
};

// The ranks in the order in which `self` sends to them: itself and those behind it first.
std::vector<Rank> from_self_on(std::span<const Rank> ranks, Rank self) {
  const auto behind = std::ranges::lower_bound(ranks, self);
  std::vector<Rank> all(behind, ranks.end());
  all.insert(all.end(), ranks.begin(), behind);
  return all;
}

// The ranks by nodes; one row where a rank's node is all or itself alone.
Grid by_nodes(const RankContext& context) {
  Grid grid(context);
  const bool several = context.ranks_per_node > 1 && grid.columns == context.ranks_per_node;
  if (!several) grid.rows = 1, grid.columns = context.ranks;
  return grid;
}

Operands messages_from(std::span<const Rank> ranks, Rank self, ChunkId token, int lane) {
  Operands all;
  for (const Rank r : ranks) all.push_back(r == self ? in(token) : from(r, lane));
  return all;
}

// Picks of a token's ranks those of `self`'s node, or those of the others.
std::vector<Rank> side(std::span<const Rank> ranks, Rank self, Rank per_node, bool far) {
  std::vector<Rank> some;
  for (const Rank r : ranks)
    if ((r / per_node != self / per_node) == far) some.push_back(r);
  return some;
}

// Every token goes from its rank to each rank that has experts of it, without detour. Lane 0 sends within the node,
// lane 1 beyond it, lane 2 receives.
// Steps: a send per token and rank, a receive per token that comes. Bytes sent per rank: its tokens times their other
// ranks.
Generator<Step> spread_dispatch_steps(RankContext context) {
  const Tokens tokens(context);
  const Rank self = context.rank, n = context.ranks;
  for (ChunkId i = 0; i < tokens.each(); ++i) {
    if (context.lane < 2) {
      const ChunkId own = tokens.number(self, i);
      const auto ranks = side(tokens.of(own), self, context.ranks_per_node, context.lane == 1);
      for (const Rank r : from_self_on(ranks, self)) co_yield move(own, {in(own)}, {r == self ? out(own) : to(r, 0)});
      continue;
    }
    for (Rank k = 1; k < n; ++k) {
      const Rank owner = (self + n - k) % n;
      const ChunkId token = tokens.number(owner, i);
      if (tokens.goes(token, self)) co_yield move(token, {from(owner, 0)}, {out(token)});
    }
  }
}

// Back: every rank that has experts of a token sends what it made of it to the token's rank, which sums in rank order.
// Lanes as above. Steps: a send per token that had come, a sum per token. Bytes: those of spread dispatch.
Generator<Step> spread_combine_steps(RankContext context) {
  const Tokens tokens(context);
  const Rank self = context.rank, n = context.ranks;
  for (ChunkId i = 0; i < tokens.each(); ++i) {
    if (context.lane == 2) {
      const ChunkId own = tokens.number(self, i);
      if (!tokens.of(own).empty()) co_yield move(own, messages_from(tokens.of(own), self, own, 0), {out(own)});
      continue;
    }
    for (Rank k = 1; k < n; ++k) {
      const Rank owner = (self + k) % n;
      const bool far = owner / context.ranks_per_node != self / context.ranks_per_node;
      const ChunkId token = tokens.number(owner, i);
      if (far == (context.lane == 1) && tokens.goes(token, self)) co_yield move(token, {in(token)}, {to(owner, 0)});
    }
  }
}

// A token crosses the network once per node that has experts of it, to the rank at its own rank's place there, which
// hands it on. Lane 0 sends within the node, lane 1 beyond it, lane 2 hands on, lane 3 receives from the node's own
// ranks. Bytes across the network per rank: its tokens times their other nodes.
Generator<Step> node_dispatch_steps(RankContext context) {
  const Tokens tokens(context);
  const Grid grid = by_nodes(context);
  const Rank self = context.rank, row = grid.row(self), column = grid.column(self);
  for (ChunkId i = 0; i < tokens.each(); ++i) {
    const ChunkId own = tokens.number(self, i);
    if (context.lane == 0) {
      for (const Rank r : from_self_on(tokens.within(own, row, grid.columns), self))
        co_yield move(own, {in(own)}, {r == self ? out(own) : to(r, 0)});
    } else if (context.lane == 1) {
      for (Rank k = 1; k < grid.rows; ++k) {
        const Rank r = (row + k) % grid.rows;
        if (!tokens.within(own, r, grid.columns).empty()) co_yield move(own, {in(own)}, {to(grid.at(r, column), 0)});
      }
    } else if (context.lane == 2) {
      for (Rank k = 1; k < grid.rows; ++k) {
        const Rank owner = grid.at((row + grid.rows - k) % grid.rows, column);
        const ChunkId token = tokens.number(owner, i);
        const auto here = tokens.within(token, row, grid.columns);
        if (here.empty()) continue;
        const Operand kept = tokens.goes(token, self) ? out(token) : scratch(0);
        co_yield move(token, {from(owner, 0)}, {kept});
        for (const Rank r : here)
          if (r != self) co_yield move(token, {kept}, {to(r, 2)});
      }
    } else {
      for (Rank k = 1; k < grid.columns; ++k) {
        const Rank near = grid.at(row, (column + grid.columns - k) % grid.columns);
        const ChunkId token = tokens.number(near, i);
        if (tokens.goes(token, self)) co_yield move(token, {from(near, 0)}, {out(token)});
      }
      for (Rank k = 1; k < grid.rows; ++k)
        for (Rank j = 1; j < grid.columns; ++j) {
          const Rank c = (column + grid.columns - j) % grid.columns;
          const ChunkId token = tokens.number(grid.at((row + grid.rows - k) % grid.rows, c), i);
          if (tokens.goes(token, self)) co_yield move(token, {from(grid.at(row, c), 2)}, {out(token)});
        }
    }
  }
}

// Back: what a node's ranks made of a token is summed at the one at the place of the token's rank, and crosses as one
// sum. Lane 0 sends within the node, lane 1 sums for other nodes, lane 2 makes this rank's own sums.
Generator<Step> node_combine_steps(RankContext context) {
  const Tokens tokens(context);
  const Grid grid = by_nodes(context);
  const Rank self = context.rank, row = grid.row(self), column = grid.column(self);
  for (ChunkId i = 0; i < tokens.each(); ++i) {
    if (context.lane == 0) {
      for (Rank j = 1; j < grid.columns; ++j) {
        const Rank near = grid.at(row, (column + j) % grid.columns);
        const ChunkId token = tokens.number(near, i);
        if (tokens.goes(token, self)) co_yield move(token, {in(token)}, {to(near, 2)});
      }
      for (Rank k = 1; k < grid.rows; ++k)
        for (Rank j = 1; j < grid.columns; ++j) {
          const Rank c = (column + j) % grid.columns;
          const ChunkId token = tokens.number(grid.at((row + k) % grid.rows, c), i);
          if (tokens.goes(token, self)) co_yield move(token, {in(token)}, {to(grid.at(row, c), 0)});
        }
    } else if (context.lane == 1) {
      for (Rank k = 1; k < grid.rows; ++k) {
        const Rank owner = grid.at((row + k) % grid.rows, column);
        const ChunkId token = tokens.number(owner, i);
        const auto here = tokens.within(token, row, grid.columns);
        if (!here.empty()) co_yield move(token, messages_from(here, self, token, 0), {to(owner, 1)});
      }
    } else {
      const ChunkId own = tokens.number(self, i);
      Operands sums = messages_from(tokens.within(own, row, grid.columns), self, own, 2);
      for (Rank k = 1; k < grid.rows; ++k) {
        const Rank r = (row + k) % grid.rows;
        if (!tokens.within(own, r, grid.columns).empty()) sums.push_back(from(grid.at(r, column), 1));
      }
      if (sums.size() > 0) co_yield move(own, sums, {out(own)});
    }
  }
}

int tokens_of(const RankContext& s) { return static_cast<int>(or_shown(s.routes, s.ranks).tokens()); }

// Routes that repeat from rank to rank, or from node to node.
Rank rotation_of(const RankContext& s) {
  const Rank routes = s.routes != nullptr ? s.routes->rotation() : 0;
  return s.nodes != nullptr || s.ranks % s.ranks_per_node != 0 ? 0 : routes;
}
Rank rotation_by_node(const RankContext& s) {
  const Rank routes = rotation_of(s), columns = by_nodes(s).columns;
  return routes > 0 && columns % routes == 0 ? columns : 0;
}

constexpr std::string_view kSource =
    "DeepEP (DeepSeek-AI, 2025): dispatch and combine of mixtures of experts; Tutel and GShard before it by all_to_all";

Algorithm spread_of(Collective collective, Generator<Step> (*steps)(RankContext)) {
  return {.name = "spread",
          .collective = collective,
          .when = "ranks of one node, or few tokens: each goes straight to every rank that has experts of it",
          .source = kSource,
          .in_order = true,
          .lanes = 3,
          .connections = 1,
          .chunks = tokens_of,
          .steps = steps,
          .rotation = rotation_of};
}

Algorithm by_node_of(Collective collective, Generator<Step> (*steps)(RankContext), int lanes) {
  return {.name = "once_per_node",
          .collective = collective,
          .when = "several nodes and many tokens: each crosses the network once per node",
          .source = kSource,
          .lanes = lanes,
          .connections = 3,
          .chunks = tokens_of,
          .scratch = [](const RankContext&) { return 1; },
          .steps = steps,
          .rotation = rotation_by_node};
}

}  // namespace

std::vector<Algorithm> experts() {
  return {spread_of(Collective::kDispatch, spread_dispatch_steps),
          by_node_of(Collective::kDispatch, node_dispatch_steps, 4),
          spread_of(Collective::kCombine, spread_combine_steps),
          by_node_of(Collective::kCombine, node_combine_steps, 3)};
}

}  // namespace weft::collectives
