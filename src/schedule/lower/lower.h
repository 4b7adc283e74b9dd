#pragma once

#include <memory>
#include <span>
#include <vector>

#include "protocol/capabilities.h"
#include "protocol/operation.h"
#include "schedule/algorithm.h"

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

  std::span<const Bytes> block_counts() const {
    return counts ? std::span<const Bytes>(*counts) : std::span<const Bytes>();
  }
  bool operator==(const Task&) const = default;
};

// A message of about `bytes`: whole elements, and whole parts where ranks own parts, at least one each. Parts of the
// uneven collectives are one, two and three times as large by rank. A barrier's message is empty.
Task task_of(Collective collective, Rank ranks, Rank ranks_per_node, Bytes bytes, DataType type);

// The layout of the message in the ranks' buffers, by the blocks that the collective defines.
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

// How large the parts of the largest chunk are: message › shard › chunk › channel's piece › round › slice.
//   piece   one channel's share of a chunk
//   round   as much of every piece as connections can hold without a deadlock (they hold as many messages, with all
//           their parts, as the algorithm needs) and as scratch holds; all steps are generated once per round
//   slice   one message; pipelines hops
// A round of zero: the protocol's slots or the scratch are too small for this algorithm on so many ranks.
struct Cut {
  Bytes piece = 0, round = 0, slice = 0;
};
Cut cut_of(const Task& task, const Plan& plan);

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
// Nodes that so many ranks fill, and the ranks of the first nodes; `per_node` of even ones.
inline Rank nodes_of(const Plan& plan, Rank ranks, Rank per_node) {
  return plan.nodes != nullptr ? plan.nodes->node_of(ranks - 1) + 1 : ranks / per_node;
}
inline Rank ranks_on(const Plan& plan, Rank nodes, Rank per_node) {
  return plan.nodes != nullptr ? plan.nodes->at(plan.nodes->first, nodes) : nodes * per_node;
}

// The least message not below the task's whose chunks are all equally large.
Task with_equal_chunks(const Task& task, const Plan& plan);

// The strands of one rank, written out: what real fabrics run, cached per task and plan.
using Program = std::vector<std::vector<protocol::Operation>>;

// What all strands of a task have in common. Both ends of a message cut alike because they compute from the same.
// Owns: copies of what it needs, but the algorithm.
struct Cutting {
  // Purpose of the operations. kTime: timing only; then parts that follow each other in a message are one
  // operation, so are signals to several ranks of the node, and waits for them (see Operation), addresses mean nothing,
  // and what ranks do alike (Algorithm::turn) is generated once for all of them.
  enum class For { kData, kTime };

  Cutting(const Task& task, const Plan& plan, For purpose = For::kData);

  Plan plan;
  Layout layout;
  RankContext context;  // of rank 0
  Cut sizes;
  Bytes scratch;  // slots of a channel
  int rounds = 0;
  For purpose;
  std::vector<Program>
      alike;  // by rank, of the first ranks, which all others do like; empty: every rank generates its own

 private:
  void tell_alike(const Task& task);
};

// One strand of one rank, cut up and addressed. Lazy: holds a few operations at a time. Simulations have tens of
// thousands of strands and turn to another one at every operation: generating several at once asks less often for a
// coroutine frame, which no cache still holds by then.
class StrandStream {
 public:
  // strand = channel * algorithm.lanes + lane; strands of all ranks with the same number are connected. `cutting` must
  // outlive this.
  StrandStream(const Cutting& cutting, Rank rank, int strand);

  // Null at the end; valid until the next call.
  const protocol::Operation* next() {
    if (alike_ != nullptr) return next_alike();
    if (next_ == read_) read_ahead();
    return next_ < read_ ? &ahead_[next_++] : nullptr;
  }

 private:
  static constexpr std::uint32_t kAhead = 8;

  void read_ahead();
  const protocol::Operation* next_alike();
  bool next_operation(protocol::Operation& operation);
  bool joined(protocol::Operation& operation, const protocol::Operation& next) const;
  bool joined_signals(protocol::Operation& operation, const protocol::Operation& next) const;
  bool next_step();
  bool cut(protocol::Operation& operation);
  void address(const SmallList<Operand, 2>& operands, Bytes bytes, SmallList<protocol::End, 2>& ends, bool destination);
  void shift(protocol::Operation& operation) const;
  void forget_closed();
  Bytes& filled(const Operand& message, bool destination);

  struct Open {  // a message that is put together, or taken apart
    Rank peer;
    int lane;
    bool destination;
    Bytes filled;
  };
  RankContext context() const;

  std::unique_ptr<protocol::Operation[]>
      ahead_;  // kAhead operations, of which the first have been generated, and the one after
  std::uint32_t next_ = 0, read_ = 0;
  bool kept_ = false;                                        // the next one has been generated already
  const std::vector<protocol::Operation>* alike_ = nullptr;  // what another rank's strand does, or null …
  protocol::Operation turned_;                               // … and the latest of it, with this rank's peers
  const Cutting* cutting_;
  Rank rank_;
  int channel_, lane_;
  int round_ = 0;
  Generator<Step> steps_;
  const Step* step_ = nullptr;
  Bytes round_begin_ = 0;   // where the round begins in the step's chunk
  Bytes at_ = 0, end_ = 0;  // what is left of the step's piece, relative to its chunk
  bool parts_ = false;      // the step sends or receives a part of a larger message, …
  bool closes_ = false;     // … which may have to be closed although the part is empty
  std::vector<Open> open_;
};

Program lower(const Task& task, const Plan& plan, Rank rank);

}  // namespace weft::schedule
