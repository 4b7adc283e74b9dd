#pragma once

#include <functional>
#include <vector>

#include "plan/schedule/algorithm.h"

// Phases on a subset of the ranks, from which algorithms on grids, nodes and rails are put together. Shard i of a
// subset belongs to its i-th member and consists of the chunks that a phase is given, which travel in one message.
namespace weft::collectives {

// Some ranks in an order, seen by one of them.
struct Subset {
  std::vector<Rank> ranks;
  int me = 0;

  int size() const { return static_cast<int>(ranks.size()); }
  Rank at(int position) const { return ranks[static_cast<std::size_t>((position % size() + size()) % size())]; }
  Rank next() const { return at(me + 1); }
  Rank previous() const { return at(me - 1); }
};

// The data of a phase: the chunks of every shard, and where partial sums or results lie.
struct Shards {
  std::function<std::vector<int>(int shard)> chunks;
  std::function<schedule::Operand(int chunk)> source;  // this rank's value before the phase
  std::function<schedule::Operand(int chunk)> result;  // where it is left
};

// Ranks as a grid of rows x columns, rank = row * columns + column. A row is a node where there are several nodes with
// several ranks; otherwise the ranks are made as square as they divide.
struct Grid {
  explicit Grid(const schedule::RankContext& context);

  Rank row(Rank r) const { return r / columns; }
  Rank column(Rank r) const { return r % columns; }
  Rank at(Rank row, Rank column) const { return row * columns + column; }
  Subset row_of(Rank r) const;     // its row, by column
  Subset column_of(Rank r) const;  // its column, by row
  schedule::Group row_group(Rank r) const { return {at(row(r), 0), columns, 1}; }
  schedule::Group column_group(Rank r) const { return {column(r), rows, columns}; }

  Rank rows = 1, columns = 1;
};

// In a ring: afterwards every member has the sum of its own shard. Size - 1 hops.
Generator<schedule::Step> ring_reduce_scatter_on(Subset subset, Shards shards);
// In a ring: every member has its own shard before, all of them afterwards. Size - 1 hops.
Generator<schedule::Step> ring_all_gather_on(Subset subset, Shards shards);
// On a line, whose ends are not joined: sums flow from both ends towards their owner, results outwards.
Generator<schedule::Step> line_reduce_scatter_on(Subset subset, Shards shards);
Generator<schedule::Step> line_all_gather_on(Subset subset, Shards shards);

}  // namespace weft::collectives
