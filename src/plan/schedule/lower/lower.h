#pragma once

#include <memory>
#include <vector>

#include "plan/schedule/lower/plan.h"

namespace weft::schedule {

// The strands of one rank as lists of operations: what real fabrics run, cached per task and plan.
using Program = std::vector<std::vector<protocol::Operation>>;

// The values that all strands of a task share. Both ends of a message cut it equally because they compute from these.
// Owns: copies of what it needs, but the algorithm.
struct LoweringContext {
  // Purpose of the operations. kTime: timing only; then parts that follow each other in a message are one
  // operation, so are signals to several ranks of the node, and waits for them (see Operation), addresses mean nothing,
  // and programs that are equal but for a rotation of the ranks (Algorithm::rotation) are generated once.
  enum class For { kData, kTime };

  LoweringContext(const Task& task, const Plan& plan, For purpose = For::kData);

  Plan plan;
  Layout layout;
  RankContext context;  // of rank 0
  Cut sizes;
  Bytes scratch;  // slots of a channel
  int rounds = 0;
  For purpose;
  // Programs of the first ranks, which all others repeat with rotated peers; empty: every rank generates its own.
  std::vector<Program> symmetric;

 private:
  void cache_symmetric(const Task& task);
};

// One strand of one rank, cut up and addressed. Lazy: holds a few operations at a time. Simulations have tens of
// thousands of strands and go to another one at every operation: generating several at once asks less often for a
// coroutine frame, which no cache still holds by then.
class StrandStream {
 public:
  // strand = channel * algorithm.lanes + lane; strands of all ranks with the same number are connected. `lowering` must
  // outlive this.
  StrandStream(const LoweringContext& lowering, Rank rank, int strand);

  // Null at the end; valid until the next call.
  const protocol::Operation* next() {
    if (symmetric_ != nullptr) return next_symmetric();
    if (next_ == read_) read_ahead();
    return next_ < read_ ? &ahead_[next_++] : nullptr;
  }

 private:
  static constexpr std::uint32_t kAhead = 8;

  void read_ahead();
  const protocol::Operation* next_symmetric();
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
  bool kept_ = false;                                            // the next one has been generated already
  const std::vector<protocol::Operation>* symmetric_ = nullptr;  // what another rank's strand does, or null …
  protocol::Operation rotated_;                                  // … and the latest of it, with this rank's peers
  const LoweringContext* lowering_;
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
