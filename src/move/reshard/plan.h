#pragma once

#include <functional>
#include <memory>
#include <span>

#include "move/reshard/layout.h"

// Plans: the moves that turn one layout into another.
namespace weft::reshard {

// `count` pieces of `bytes` bytes, from one part of a tensor into one part of a tensor. Offsets and strides are in
// bytes within the two ranks' parts. `from` and `to` number the tensors of the two layouts.
struct Move {
  std::int32_t from = 0, to = 0;
  Rank sender = 0, receiver = 0;  // as the two layouts number them
  std::int64_t source = 0, destination = 0, bytes = 0, count = 1, source_stride = 0, destination_stride = 0;

  std::int64_t total() const { return bytes * count; }
  bool operator==(const Move&) const = default;
};

struct PlanOptions {
  bool same_ranks = false;  // rank r of both layouts is one process: what it holds already it copies itself
  Rank per_node = 0;  // > 0: ranks per node, receivers numbered behind the senders; a copy in the node is preferred
};

// What one sender moves to one receiver in all tensors together.
struct PairTotal {
  Rank sender = 0, receiver = 0;
  std::int64_t bytes = 0, pieces = 0;
};

// A plan. Tensors that are spread alike in both layouts share one pattern, so that plans of 10^5 tensors are small. A
// value; the layouts are copied into it.
class Plan {
 public:
  // Errors (bad input), each in one line naming tensor and rank: a layout that check() refuses, a tensor of `to` that
  // `from` lacks or has with another shape or element size, elements that a rank of `to` wants and no rank of `from`
  // has.
  static Result<Plan> make(Layout from, Layout to, const PlanOptions& options = {});

  const Layout& from() const { return *from_; }
  const Layout& to() const { return *to_; }
  const PlanOptions& options() const { return options_; }

  // By sender, then receiver; of same_ranks also what stays.
  const std::vector<PairTotal>& pairs() const { return pairs_; }
  bool stays(Rank sender, Rank receiver) const { return options_.same_ranks && sender == receiver; }
  std::int64_t patterns() const { return static_cast<std::int64_t>(patterns_.size()); }
  // Tensors of `from` that no tensor of `to` wants: they are left where they are.
  std::int64_t unwanted() const { return unwanted_; }

  // All moves, or those to one receiver (>= 0), or those of one tensor of `to` (>= 0).
  void for_each(const std::function<void(const Move&)>& call, Rank receiver = -1, std::int32_t to_tensor = -1) const;
  std::vector<Move> moves(Rank receiver = -1, std::int32_t to_tensor = -1) const;

  // The elements of one tensor that one receiver gets from one of several equal senders.
  struct Unit {
    std::int64_t id = 0;  // the same whichever rank sends it
    Rank sender = 0;
    std::int64_t bytes = 0;
    std::vector<Move> moves;
  };
  // What one receiver gets, from none of the senders `without`. Errors (kPeerDied): nobody else has it; names the
  // tensor.
  Status for_each_unit(Rank receiver, std::span<const Rank> without, const std::function<void(Unit)>& call) const;

  // For each pattern one tensor of `to` that follows it, with its moves from each possible sender in turn; for proofs.
  void for_each_pattern(const std::function<void(std::int32_t to_tensor, int senders)>& call) const;
  std::vector<Move> moves_by(std::int32_t to_tensor, int sender) const;

 private:
  struct Piece {  // rows that two parts of a dimension have in common
    std::int64_t source = 0, destination = 0, length = 0;
  };
  // The rows of a part of the destination that the same parts of the source hold.
  struct Overlap {
    std::vector<std::int32_t> source_parts;
    std::vector<std::vector<Piece>> pieces;  // by source part
    std::int64_t rows = 0;
  };
  // How the parts of one tensor are dealt out.
  struct Spread {
    struct Group {
      std::vector<std::int32_t> parts;  // by dimension, into `dims`
      std::vector<Rank> ranks;
    };
    std::vector<std::vector<DimensionPart>> dims;  // by dimension, distinct
    std::vector<Group> groups;                     // of ranks that hold the same
  };
  struct Window {  // the part of a tensor that is one component
    std::int32_t tensor = 0;
    int dim = 0;
    std::int64_t begin = 0, size = -1;  // -1: the whole tensor
  };
  // What ranks of a source group send, should they be chosen.
  struct Choice {
    std::int32_t source_group = 0;
    std::int64_t pieces = 0;                        // contiguous, to one receiver
    std::vector<const std::vector<Piece>*> by_dim;  // into the pattern's overlaps
  };
  struct Sender {
    Rank rank = 0;
    std::int32_t choice = 0;
    auto operator<=>(const Sender&) const = default;
  };
  struct Flow {
    std::int32_t destination_group = 0;
    std::int64_t elements = 0;
    std::vector<Choice> choices;
    std::vector<Sender> senders;  // by rank
  };
  struct Pattern {
    std::shared_ptr<const Spread> source, destination;
    std::int64_t element_bytes = 1;
    std::vector<std::vector<std::vector<Overlap>>> overlaps;  // by dimension, by part of the destination
    std::vector<Flow> flows;
    std::int32_t first_tensor = 0;
    int most_senders = 1;
  };
  struct Job {
    std::int32_t from = 0, to = 0, pattern = 0, turn = 0;  // turn: which of equal senders comes first
  };
  class Maker;
  class Writer;

  // Those of a flow's senders that may serve this receiver, by its number in the group.
  std::span<const Sender> senders_of(const Pattern& pattern, const Flow& flow, std::size_t receiver) const;
  std::span<const Job> jobs_of(std::int32_t to_tensor) const;  // < 0: all
  void emit(const Job& job, std::int64_t turn, Rank receiver, const std::function<void(const Move&)>& call) const;
  void add_up();

  std::shared_ptr<const Layout> from_, to_;
  PlanOptions options_;
  std::vector<std::shared_ptr<const Pattern>> patterns_;
  std::vector<Job> jobs_;  // by `to`
  std::vector<PairTotal> pairs_;
  std::int64_t unwanted_ = 0;
};

}  // namespace weft::reshard
