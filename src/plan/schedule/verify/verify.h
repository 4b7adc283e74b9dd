#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/schedule/schedule.h"

namespace weft::schedule {

// What is wrong with a schedule, where.
struct Finding {
  enum class Kind {
    kBadOperand,   // names a rank, chunk or buffer that does not exist, writes the input, or uses a connection twice
    kUndefined,    // reads memory that nothing was written to
    kDoubled,      // a contribution is reduced in twice
    kMissing,      // a contribution is not in the result
    kForeign,      // the result holds another chunk's data
    kRace,         // two accesses to the same memory (or end of a connection) that nothing orders, one of them a write;
                   // a rank's call writes all its memory once before its first step and once after its last
    kWrongChunk,   // a message is received as another chunk, or another part of a message, than it was sent as
    kNeverSent,    // waits for a message or signal of a rank that has finished
    kNeverTaken,   // a message or signal is left over at the end
    kSlotOverrun,  // sends more than the connection's slots hold before the peer takes any
    kDeadlock,     // ranks wait for each other in a cycle
    kOutOfOrder,   // (if asked) a sum that is not one fold over single contributions in rank order
  };
  Kind kind = Kind::kBadOperand;
  Rank rank = -1;
  int lane = 0;
  int step = -1;  // index in the strand; -1: at the end
  ChunkId chunk = -1;
  Rank peer = -1;    // the other rank concerned: the missing contributor, the racing rank, …
  std::string text;  // one line for a person, naming all of the above
};

std::string_view name(Finding::Kind kind);

// One move that was executed, for pictures of how a schedule proceeds.
struct Moved {
  Rank rank = 0;
  int lane = 0, step = 0;  // index in the strand
  ChunkId chunk = 0;       // of the value
  struct Ranks {
    Rank first = 0, count = 0;  // consecutive ones
  };
  std::vector<Ranks> contributors;  // ranks whose input is in the value, in ascending order
  std::int64_t depth = 0;           // steps of the longest chain of steps that ends with this one, it included
};

struct VerifyOptions {
  int slots = 2;                                   // chunks that a connection holds before its sender must wait
  bool in_place = false;                           // output and input are the same memory
  bool in_order = false;                           // prove the order of sums too
  std::function<void(const Moved&)> on_move = {};  // called after every move, in an order that respects all waits
};

struct Proof {
  std::int64_t steps = 0;
  std::int64_t messages = 0;
  std::int64_t remote_accesses = 0;
  std::optional<Finding> counterexample;  // none: proved

  bool ok() const { return !counterexample; }
};

// Runs the schedule symbolically: every chunk is the multiset of contributions it holds. Proves, for these ranks and
// slots, that it ends, that the postcondition holds, and that no two unordered accesses conflict; or stops at the
// first counterexample. One execution suffices: strands communicate only by first-in-first-out channels and counted
// signals, so where no race is found every interleaving gives the same values (Kahn, 1974).
// Cost: steps x ranks x lanes for the clocks; ring all_reduce on 1,024 ranks, 2 million steps, takes seconds.
// Requires: check(schedule), as of every schedule that write_out made.
Proof verify(const Schedule& schedule, VerifyOptions options = {});

}  // namespace weft::schedule
