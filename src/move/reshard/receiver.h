#pragma once

#include <chrono>
#include <map>
#include <span>
#include <unordered_set>

#include "move/reshard/changes.h"
#include "move/reshard/plan.h"
#include "weft/transfer.h"

// Plans run by transfer's agents: receivers read from senders, which need not do anything.
namespace weft::reshard {

// The parts of a rank's tensors, one behind the other in one region: where each begins, in bytes.
struct Memory {
  std::vector<std::int64_t> offsets;  // by tensor; -1: the rank has no part of it
  std::int64_t bytes = 0;             // of all, at least 1
};
Memory memory_of(const Layout& layout, Rank rank);

// One receiving rank. Its memory holds all parts when pull() has returned without an error, and not before.
// Thread: one at a time. Owns: nothing; plan and agent must outlive it.
class Receiver {
 public:
  struct Peer {
    std::string name;  // of the agent of a rank of the plan's first layout, which this agent has loaded; empty: unknown
    std::uint32_t region = 0;                 // with its memory_of()
    std::optional<std::uint32_t> table = {};  // a Publisher's of that memory
  };
  // `memory`: of the agent, of at least memory_of(plan.to(), rank).bytes. `peers`: by rank.
  Receiver(const Plan& plan, Rank rank, transfer::Agent& agent, transfer::Registration memory, std::vector<Peer> peers);

  // Gets what is missing. A sender that fails is lost; what it was to send comes from ranks that hold the same. Called
  // again after an error it gets only what is still missing. Errors: kPeerDied naming the tensor, where no rank is left
  // that has a part; kTimeout after `limit`.
  Status pull(std::chrono::milliseconds limit);

  // Begins version `version` of all parts, 1 or more: pull() then gets it from senders with tables that have it, and of
  // what this receiver has read from the same sender before only blocks that have changed. Where pull() returns an
  // error, the memory is neither version; called again it goes on. Errors of pull() besides: kMismatch: a sender has
  // another version, or began the next one while it was read.
  void begin(std::int64_t version);

  std::int64_t arrived_bytes() const { return arrived_; }
  std::span<const Rank> lost() const { return lost_; }
  // A sender that was lost is there again, under the same name or another.
  void returned(Rank sender, Peer peer);

 private:
  struct Batch {  // units of one sender that are one request
    std::vector<std::int64_t> units;
    std::vector<transfer::Rows> here, there;
    std::int64_t bytes = 0;
  };
  Result<bool> pass(std::chrono::steady_clock::time_point end);
  Result<std::map<Rank, std::vector<Batch>>> batches() const;
  Result<transfer::Request> post(Rank sender, const Batch& batch);
  const Memory& memory_of_sender(Rank sender) const;
  void add_rows(Batch& batch, Rank sender, std::int64_t unit, const transfer::Rows& here,
                const transfer::Rows& there) const;
  void arrived(Rank sender, const Batch& batch);
  Status read_tables();
  Result<Table> read_table(Rank sender, bool header_only);
  Status still_there();

  const Plan& plan_;
  Rank rank_;
  transfer::Agent& agent_;
  transfer::Registration memory_;
  std::vector<Peer> peers_;
  Memory mine_;
  mutable std::map<Rank, Memory> theirs_;
  std::unordered_set<std::int64_t> done_;
  std::vector<Rank> lost_;
  std::string why_;  // the last sender's error
  std::int64_t arrived_ = 0;
  std::int64_t version_ = 0;  // that is wanted; 0: whatever is there
  bool ended_ = false;        // this version, or the last one
  Changes changes_;
  transfer::Registration table_;                   // where tables arrive
  std::map<Rank, std::int64_t> block_bytes_ = {};  // of senders' tables that were read
};

}  // namespace weft::reshard
