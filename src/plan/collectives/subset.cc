#include "plan/collectives/subset.h"

#include <algorithm>

namespace weft::collectives {

using namespace schedule;

Grid::Grid(const RankContext& context) {
  const Rank n = context.ranks, per_node = context.ranks_per_node;
  if (per_node > 1 && per_node < n && n % per_node == 0) {
    columns = per_node;
  } else {
    while ((columns + 1) * (columns + 1) <= n) ++columns;
    while (n % columns != 0) --columns;
    columns = n / columns;  // the longer side
  }
  rows = n / columns;
}

Subset Grid::row_of(Rank r) const {
  Subset s{.ranks = {}, .me = column(r)};
  for (Rank c = 0; c < columns; ++c) s.ranks.push_back(at(row(r), c));
  return s;
}

Subset Grid::column_of(Rank r) const {
  Subset s{.ranks = {}, .me = row(r)};
  for (Rank i = 0; i < rows; ++i) s.ranks.push_back(at(i, column(r)));
  return s;
}

namespace {

// A phase of one rank has nothing to do but to leave its value where the result is expected.
Generator<Step> alone(Subset subset, Shards shards) {
  for (const int c : shards.chunks(subset.me))
    if (shards.source(c) != shards.result(c)) co_yield move(c, {shards.source(c)}, {shards.result(c)});
}

}  // namespace

Generator<Step> ring_reduce_scatter_on(Subset subset, Shards shards) {
  if (subset.size() == 1) {
    auto copy = alone(subset, shards);
    while (const Step* step = copy.next()) co_yield *step;
    co_return;
  }
  for (int k = 1; k <= subset.size(); ++k) {
    const int shard = ((subset.me - k) % subset.size() + subset.size()) % subset.size();
    const std::vector<int> chunks = shards.chunks(shard);
    for (const int c : chunks) {
      const bool more = c != chunks.back();
      Operands sources;
      if (k > 1) sources.push_back(from(subset.previous()).continued(more));
      sources.push_back(shards.source(c));
      co_yield move(c, sources, {k == subset.size() ? shards.result(c) : to(subset.next()).continued(more)});
    }
  }
}

Generator<Step> ring_all_gather_on(Subset subset, Shards shards) {
  if (subset.size() == 1) {
    auto copy = alone(subset, shards);
    while (const Step* step = copy.next()) co_yield *step;
    co_return;
  }
  for (int k = 0; k < subset.size(); ++k) {
    const int shard = ((subset.me - k) % subset.size() + subset.size()) % subset.size();
    const std::vector<int> chunks = shards.chunks(shard);
    for (const int c : chunks) {
      const bool more = c != chunks.back();
      const Operand source = k == 0 ? shards.source(c) : from(subset.previous()).continued(more);
      Operands destinations;
      if (source != shards.result(c)) destinations.push_back(shards.result(c));
      if (k < subset.size() - 1) destinations.push_back(to(subset.next()).continued(more));
      co_yield move(c, {source}, destinations);
    }
  }
}

// Times at which shards pass position m: shard i > m, coming from the left end, at m + (last - i); shard i < m, coming
// from the right end, at (last - m) + i. Taking steps in this order, every step waits only for earlier ones.
Generator<Step> line_reduce_scatter_on(Subset subset, Shards shards) {
  const int last = subset.size() - 1, me = subset.me;
  for (int time = 0; time < last; ++time)
    for (const bool rightwards : {true, false}) {
      const int shard = rightwards ? me + last - time : time - (last - me);
      if (rightwards ? shard <= me || shard > last : shard < 0 || shard >= me) continue;
      const int from_position = rightwards ? me - 1 : me + 1;
      const std::vector<int> chunks = shards.chunks(shard);
      for (const int c : chunks) {
        const bool more = c != chunks.back();
        Operands sources;
        if (from_position >= 0 && from_position <= last)
          sources.push_back(from(subset.at(from_position)).continued(more));
        sources.push_back(shards.source(c));
        co_yield move(c, sources, {to(subset.at(rightwards ? me + 1 : me - 1)).continued(more)});
      }
    }
  const std::vector<int> own = shards.chunks(me);
  for (const int c : own) {
    const bool more = c != own.back();
    Operands sources;
    if (me > 0) sources.push_back(from(subset.at(me - 1)).continued(more));
    sources.push_back(shards.source(c));
    if (me < last) sources.push_back(from(subset.at(me + 1)).continued(more));
    if (sources.size() > 1 || shards.source(c) != shards.result(c)) co_yield move(c, sources, {shards.result(c)});
  }
}

Generator<Step> line_all_gather_on(Subset subset, Shards shards) {
  const int last = subset.size() - 1, me = subset.me;
  const std::vector<int> own = shards.chunks(me);
  for (const int c : own) {
    const bool more = c != own.back();
    Operands destinations;
    if (shards.source(c) != shards.result(c)) destinations.push_back(shards.result(c));
    if (me > 0) destinations.push_back(to(subset.at(me - 1)).continued(more));
    if (me < last) destinations.push_back(to(subset.at(me + 1)).continued(more));
    if (!destinations.empty()) co_yield move(c, {shards.source(c)}, destinations);
  }
  for (int distance = 1; distance <= last; ++distance)
    for (const int side : {-1, 1}) {  // a shard from that side goes on to the other
      const int shard = me + side * distance;
      if (shard < 0 || shard > last) continue;
      const std::vector<int> chunks = shards.chunks(shard);
      for (const int c : chunks) {
        const bool more = c != chunks.back();
        Operands destinations{shards.result(c)};
        if (me - side >= 0 && me - side <= last) destinations.push_back(to(subset.at(me - side)).continued(more));
        co_yield move(c, {from(subset.at(me + side)).continued(more)}, destinations);
      }
    }
}

}  // namespace weft::collectives
