#pragma once

#include <vector>

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

  bool operator==(const Task&) const = default;
};

// How it is to be done.
struct Plan {
  const Algorithm* algorithm = nullptr;
  protocol::Protocol protocol = protocol::Protocol::kSimple;
  int channels = 1;
  Bytes slice_bytes = 0;    // one message; at most what the protocol's and the fabric's slots hold
  bool staged = false;      // load/store algorithms: peers cannot reach the caller's buffers
  Bytes scratch_bytes = 0;  // staged: how much scratch a rank has

  bool operator==(const Plan&) const = default;
};

// How large the parts of the largest chunk are: message › shard › chunk › channel's piece › round › slice.
//   piece   one channel's share of a chunk
//   round   as much of every piece as connections can hold without a deadlock (half of the slots), or as scratch holds;
//           the whole story is told once per round
//   slice   one message; pipelines hops
struct Cut {
  Bytes piece = 0, round = 0, slice = 0;
};
Cut cut_of(const Task& task, const Plan& plan);

// The slice that keeps a chunk's pipeline busy without paying the per-message cost too often.
Bytes default_slice(const Task& task, const Plan& plan);

// One strand of one rank, cut up and addressed. Lazy: holds one operation at a time. Both ends of a message cut alike
// because they compute from the same task and plan.
class StrandStream {
 public:
  // strand = channel * algorithm.lanes + lane; strands of all ranks with the same number are connected.
  StrandStream(const Task& task, const Plan& plan, Rank rank, int strand);

  // Null at the end; valid until the next call.
  const protocol::Operation* next();

 private:
  bool next_step();
  bool cut();
  void address(const SmallList<Operand, 2>& operands, SmallList<protocol::End, 2>& ends) const;

  Plan plan_;
  Layout layout_;
  Story story_;
  int channel_;
  Cut cut_sizes_;
  int rounds_ = 0, round_ = 0;
  Generator<Step> steps_;
  const Step* step_ = nullptr;
  Bytes at_ = 0, end_ = 0;  // what is left of the step's piece, relative to its chunk
  protocol::Operation operation_;
};

// The strands of one rank, written out: what real fabrics run, cached per task and plan.
using Program = std::vector<std::vector<protocol::Operation>>;
Program lower(const Task& task, const Plan& plan, Rank rank);

}  // namespace weft::schedule
