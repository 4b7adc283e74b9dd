#pragma once

#include <memory>
#include <span>
#include <vector>

#include "plan/protocol/capabilities.h"
#include "plan/protocol/operation.h"
#include "plan/schedule/algorithm.h"

namespace weft::schedule {

// What is to be done: one collective on one message.
struct Task {
  Collective collective = Collective::kAllReduce;
  Rank ranks = 1;
  Rank root = 0;
  Rank ranks_per_node = 1;
  Bytes elements = 0;  // of the whole message (the larger side)
  Bytes element_bytes = 1;
  std::shared_ptr<const std::vector<Bytes>> counts = nullptr;  // elements of every block, see Layout; uneven ones only
  std::shared_ptr<const TokenRoutes> routes = nullptr;         // of the routed ones; null: shown_routes(ranks)

  std::span<const Bytes> block_counts() const {
    return counts ? std::span<const Bytes>(*counts) : std::span<const Bytes>();
  }
  bool operator==(const Task&) const = default;
};

// A message of about `bytes`: whole elements, and whole parts where ranks own parts, at least one each. Parts of the
// uneven collectives are one, two and three times as large by rank. A barrier's message is empty. Routed collectives
// have shown_routes(ranks), whole elements for every token.
Task task_of(Collective collective, Rank ranks, Rank ranks_per_node, Bytes bytes, DataType type);

// The layout of the message in the ranks' buffers, by the blocks that the collective defines, or its tokens.
Layout layout_of(const Task& task);

// Messages need a protocol that carries them; loads and stores alone are the protocol Direct.
bool fits(const Algorithm& algorithm, protocol::Protocol protocol);

// How it is to be done.
struct Plan {
  const Algorithm* algorithm = nullptr;
  protocol::Protocol protocol = protocol::Protocol::kSimple;
  int channels = 1;
  Bytes slice_bytes = 0;     // one message; at most what the protocol's and the fabric's slots hold
  bool staged = false;       // load/store algorithms: peers cannot reach the caller's buffers
  Bytes scratch_bytes = 0;   // how much scratch a rank has
  bool multicast = false;    // the fabric's switches do that; otherwise loads and stores to every rank of the group
  bool aggregation = false;  // the fabric's switches do that; otherwise messages to every rank of the group
  Duration staging;          // of the first buffers and emptying of the last, where a library copies through its own
  int repeat_limit = 0;      // simulations only, see RankContext
  Bytes most_round = 0;      // simulations only: of a chunk in a round, at most; 0: as much as fits
  std::shared_ptr<const RingOrders> rings = nullptr;
  std::shared_ptr<const UnevenNodes> nodes = nullptr;
  Rank first = 0;  // simulations only: the fabric's rank that is the task's rank 0

  // Is scratch what this rank writes and its peers only read?
  bool streams_scratch() const { return staged && !algorithm->needs.stores && !algorithm->needs.multicast; }
  bool operator==(const Plan&) const = default;
};

// The layout with the chunks that the plan's algorithm wants.
Layout layout_of(const Task& task, const Plan& plan);

// How large the parts of the largest chunk are: message › shard › chunk › channel's piece › round › slice.
//   piece   one channel's share of a chunk
//   round   as much of every piece as connections can hold without a deadlock (they hold as many messages, with all
//           their parts, as the algorithm needs) and as scratch holds; all steps are generated once per round
//   slice   one message; pipelines hops
// A round of zero: the protocol's slots or the scratch are too small for this algorithm on this number of ranks.
struct Cut {
  Bytes piece = 0, round = 0, slice = 0;
};
Cut cut_of(const Task& task, const Plan& plan);

// A channel's share of a chunk: whole cache lines where elements allow it.
Bytes piece_bytes(Bytes chunk_bytes, int channels, Bytes element_bytes);

// Small chunks leave nothing for the last channels: how many have a piece. At least 1.
int busy_channels(const Task& task, const Plan& plan);

// A plan that fits the fabric. `registered`: peers reach the caller's buffers.
// The slice keeps a chunk's pipeline busy without paying the per-message cost too often.
Plan make_plan(const Task& task, const Algorithm& algorithm, protocol::Protocol protocol, int channels,
               const protocol::Capabilities& can, bool registered);

// The algorithm's own words on this task and plan, for rank 0.
RankContext context_of(const Task& task, const Plan& plan);

// Simulations leave out what repeats. Of the rounds that the plan cuts the task into …
std::int64_t rounds_of(const Task& task, const Plan& plan);
// … a task of `fewer` less with the same plan. Requires: fewer < rounds_of.
Task shortened(const Task& task, const Plan& plan, std::int64_t fewer);
// The same with fewer ranks, whose chunks are as large: where there is a chunk per rank, they share a smaller message.
Task on_fewer_ranks(const Task& task, const Plan& plan, Rank ranks);
// Nodes that `ranks` fill, and the ranks of the first `nodes`; `per_node` of even ones.
inline Rank nodes_of(const Plan& plan, Rank ranks, Rank per_node) {
  return plan.nodes != nullptr ? plan.nodes->node_of(ranks - 1) + 1 : ranks / per_node;
}
inline Rank ranks_on(const Plan& plan, Rank nodes, Rank per_node) {
  return plan.nodes != nullptr ? plan.nodes->at(plan.nodes->first, nodes) : nodes * per_node;
}

// The least message not below the task's whose chunks are all equally large.
Task with_equal_chunks(const Task& task, const Plan& plan);

}  // namespace weft::schedule
