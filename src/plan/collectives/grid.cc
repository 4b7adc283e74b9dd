#include "plan/collectives/grid.h"

#include "plan/collectives/subset.h"

namespace weft::collectives {

using namespace schedule;

namespace {

using Phase = Generator<Step> (*)(Subset, Shards);

std::vector<int> range(int first, int count, int stride = 1) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(first + i * stride);
  return all;
}

int chunk_per_rank(const RankContext& s) { return s.ranks; }

// Reduce-scatter along this rank's line of the first dimension, all-reduce (as both halves) along the second,
// all-gather along the first. Chunk i * second + j, plus `first_chunk`, is the j-th part of the first dimension's shard
// i.
Generator<Step> two_dimensions(Subset first, Subset second, int first_chunk, Phase scatter, Phase gather) {
  const int parts = second.size(), mine = first.me;
  const Shards outer{[=](int i) { return range(first_chunk + i * parts, parts); }, in, out};
  const Shards inner{[=](int j) { return range(first_chunk + mine * parts + j, 1); }, out, out};
  Shards results = outer;
  results.source = out;
  auto down = scatter(first, outer);
  while (const Step* step = down.next()) co_yield *step;
  auto across = scatter(second, inner);
  while (const Step* step = across.next()) co_yield *step;
  auto back = gather(second, inner);
  while (const Step* step = back.next()) co_yield *step;
  auto up = gather(first, results);
  while (const Step* step = up.next()) co_yield *step;
}

// Node first, then every rail on its own, then the node again: the network carries 1/ranks_per_node of the message per
// rank. Steps: 2 (columns-1) rows + 4 (rows-1). Bytes sent per rank: 2 (n-1)/n of the message, of them 2 (rows-1)/n
// across.
Generator<Step> hierarchical_all_reduce_steps(RankContext context) {
  const Grid grid(context);
  return two_dimensions(grid.row_of(context.rank), grid.column_of(context.rank), 0, ring_reduce_scatter_on,
                        ring_all_gather_on);
}

// Half of the message goes along the rows first, the other half along the columns, so that both directions of links
// work all the time. Steps and bytes as hierarchical, in two lanes.
Generator<Step> torus_all_reduce_steps(RankContext context) {
  const Grid grid(context);
  const Subset row = grid.row_of(context.rank), column = grid.column_of(context.rank);
  return two_dimensions(context.lane == 0 ? row : column, context.lane == 0 ? column : row,
                        context.lane * context.ranks, ring_reduce_scatter_on, ring_all_gather_on);
}

// Hierarchical, but with no link from the last to the first of a row or column.
Generator<Step> mesh_all_reduce_steps(RankContext context) {
  const Grid grid(context);
  return two_dimensions(grid.row_of(context.rank), grid.column_of(context.rank), 0, line_reduce_scatter_on,
                        line_all_gather_on);
}

// Every part travels along its column, then along all rows. Bytes sent per rank: (n-1)/n of the message.
Generator<Step> gather_steps(RankContext context, Phase gather) {
  const Grid grid(context);
  const Rank column = grid.column(context.rank);
  auto across =
      gather(grid.column_of(context.rank), {[=](int row) { return range(grid.at(row, column), 1); }, in, out});
  while (const Step* step = across.next()) co_yield *step;
  auto inside = gather(grid.row_of(context.rank), {[=](int c) { return range(c, grid.rows, grid.columns); }, out, out});
  while (const Step* step = inside.next()) co_yield *step;
}

// Sums inside the rows, then along the columns. Sums of a row lie in scratch: the output has room for one part only.
Generator<Step> scatter_steps(RankContext context, Phase scatter) {
  const Grid grid(context);
  const Rank column = grid.column(context.rank);
  const auto row_sum = [=](int chunk) { return scratch(chunk / grid.columns); };
  auto inside =
      scatter(grid.row_of(context.rank), {[=](int c) { return range(c, grid.rows, grid.columns); }, in, row_sum});
  while (const Step* step = inside.next()) co_yield *step;
  auto across =
      scatter(grid.column_of(context.rank), {[=](int row) { return range(grid.at(row, column), 1); }, row_sum, out});
  while (const Step* step = across.next()) co_yield *step;
}

// What goes to another node is first gathered, inside the node, at the rank that has the receiver's place, and crosses
// in one message for all senders of the node. Messages per rank: columns-1 + rows-1 instead of n-1. Bytes: those inside
// twice.
Generator<Step> hierarchical_all_to_all_steps(RankContext context) {
  const Grid grid(context);
  const Rank n = context.ranks, self = context.rank, row = grid.row(self), column = grid.column(self);
  const auto chunk = [=](Rank source, Rank destination) { return ChunkId{source} * n + destination; };
  const auto slot = [=](Rank from_column, Rank to_row) { return scratch(from_column * grid.rows + to_row); };
  for (Rank k = 0; k < grid.columns; ++k) {  // to my node's rank in column c: all that is for its column
    const Rank c = (column + k) % grid.columns, peer = grid.at(row, c);
    for (Rank r = 0; r < grid.rows; ++r) {
      const ChunkId what = chunk(self, grid.at(r, c));
      Operand destination = peer != self ? to(peer).continued(r + 1 < grid.rows)
                            : r == row   ? out(what)
                                         : slot(column, r);
      co_yield move(what, {in(what)}, {destination});
    }
  }
  for (Rank k = 1; k < grid.columns; ++k) {
    const Rank c = (column - k + grid.columns) % grid.columns;
    for (Rank r = 0; r < grid.rows; ++r) {
      const ChunkId what = chunk(grid.at(row, c), grid.at(r, column));
      co_yield move(what, {from(grid.at(row, c)).continued(r + 1 < grid.rows)}, {r == row ? out(what) : slot(c, r)});
    }
  }
  for (Rank k = 1; k < grid.rows; ++k) {
    const Rank r = (row + k) % grid.rows;
    for (Rank c = 0; c < grid.columns; ++c)
      co_yield move(chunk(grid.at(row, c), grid.at(r, column)), {slot(c, r)},
                    {to(grid.at(r, column)).continued(c + 1 < grid.columns)});
    const Rank back = (row - k + grid.rows) % grid.rows;
    for (Rank c = 0; c < grid.columns; ++c) {
      const ChunkId what = chunk(grid.at(back, c), self);
      co_yield move(what, {from(grid.at(back, column)).continued(c + 1 < grid.columns)}, {out(what)});
    }
  }
}

// The ranks as they are numbered, as one line: every part runs outwards in both directions.
Generator<Step> line_steps(RankContext context, bool gathers) {
  Subset all{.ranks = range(0, context.ranks), .me = context.rank};
  const Shards shards{[](int i) { return range(i, 1); }, in, out};
  return gathers ? line_all_gather_on(std::move(all), shards) : line_reduce_scatter_on(std::move(all), shards);
}

constexpr std::string_view kTorusSource =
    "Mikami et al., Massively distributed SGD: ImageNet/ResNet-50 training in a flash, 2018 (2D-torus all-reduce)";
constexpr std::string_view kMeshSource =
    "Barnett et al., Interprocessor collective communication library (row/column on meshes), 1994";
constexpr std::string_view kHierarchicalSource =
    "Cho et al., BlueConnect: decomposing all-reduce for deep learning on heterogeneous network hierarchy, 2019";

Rank by_one_row(const RankContext& s) { return Grid(s).columns; }
int grid_rows(const RankContext& s) { return Grid(s).rows; }
int grid_parts(const RankContext& s) { return std::max(Grid(s).rows, Grid(s).columns); }

}  // namespace

Algorithm hierarchical_all_reduce() {
  return {.name = "hierarchical",
          .collective = Collective::kAllReduce,
          .when = "several nodes: least bytes across the network, all rails at once",
          .source = kHierarchicalSource,
          .chunks = chunk_per_rank,
          .parts = grid_rows,
          .steps = hierarchical_all_reduce_steps,
          .rotation = by_one_row,
          .growth = Growth::kPerRow};
}
Algorithm hierarchical_all_gather() {
  return {.name = "hierarchical",
          .collective = Collective::kAllGather,
          .when = "several nodes: across on all rails, then inside the nodes",
          .source = kHierarchicalSource,
          .parts = grid_rows,
          .steps = [](RankContext s) { return gather_steps(s, ring_all_gather_on); },
          .rotation = by_one_row,
          .growth = Growth::kPerRow};
}
Algorithm hierarchical_reduce_scatter() {
  return {.name = "hierarchical",
          .collective = Collective::kReduceScatter,
          .when = "several nodes: inside the nodes, then across on all rails",
          .source = kHierarchicalSource,
          .scratch = grid_rows,
          .parts = grid_rows,
          .steps = [](RankContext s) { return scatter_steps(s, ring_reduce_scatter_on); },
          .rotation = by_one_row,
          .growth = Growth::kPerRow};
}
Algorithm hierarchical_all_to_all() {
  return {.name = "hierarchical",
          .collective = Collective::kAllToAll,
          .when = "several nodes and small parts: few messages across the network",
          .source = "Bruck et al. 1997, two-phase index operation; NCCL PXN and DeepEP send so across rails",
          .scratch = [](const RankContext& s) { return static_cast<int>(s.ranks); },
          .parts = grid_parts,
          .steps = hierarchical_all_to_all_steps,
          .rotation = by_one_row,
          .growth = Growth::kPerRow};
}
Algorithm torus_all_reduce() {
  return {.name = "torus2d",
          .collective = Collective::kAllReduce,
          .when = "a two-dimensional torus: all links of both dimensions at once",
          .source = kTorusSource,
          .lanes = 2,
          .chunks = [](const RankContext& s) { return 2 * s.ranks; },
          .parts = grid_parts,
          .steps = torus_all_reduce_steps,
          .rotation = by_one_row,
          .growth = Growth::kPerRow};
}
Algorithm mesh_all_reduce() {
  return {.name = "mesh",
          .collective = Collective::kAllReduce,
          .when = "a two-dimensional mesh, whose rows and columns do not close to rings",
          .source = kMeshSource,
          .chunks = chunk_per_rank,
          .parts = grid_rows,
          .steps = mesh_all_reduce_steps,
          .growth = Growth::kPerRow};
}
Algorithm mesh_all_gather() {
  return {.name = "mesh",
          .collective = Collective::kAllGather,
          .when = "a two-dimensional mesh",
          .source = kMeshSource,
          .parts = grid_rows,
          .steps = [](RankContext s) { return gather_steps(s, line_all_gather_on); },
          .growth = Growth::kPerRow};
}
Algorithm mesh_reduce_scatter() {
  return {.name = "mesh",
          .collective = Collective::kReduceScatter,
          .when = "a two-dimensional mesh",
          .source = kMeshSource,
          .scratch = grid_rows,
          .parts = grid_rows,
          .steps = [](RankContext s) { return scatter_steps(s, line_reduce_scatter_on); },
          .growth = Growth::kPerRow};
}
Algorithm line_all_gather() {
  return {.name = "line",
          .collective = Collective::kAllGather,
          .when = "ranks form a line whose ends are not joined to a ring",
          .source = "Chan et al., Collective communication: theory, practice, and experience, 2007 (linear arrays)",
          .steps = [](RankContext s) { return line_steps(s, true); }};
}
Algorithm line_reduce_scatter() {
  return {.name = "line",
          .collective = Collective::kReduceScatter,
          .when = "ranks form a line whose ends are not joined to a ring",
          .source = "Chan et al., Collective communication: theory, practice, and experience, 2007 (linear arrays)",
          .steps = [](RankContext s) { return line_steps(s, false); }};
}

}  // namespace weft::collectives
