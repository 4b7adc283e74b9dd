#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/soak/call.h"
#include "weft/communicator.h"

// Ranks that call different things, drawn from a seed.
namespace weft::disagreement {

using soak::Random;

// What one rank calls. Ranks whose calls have one salt mean one call; others differ somewhere that counts.
struct Call {
  enum class Kind : std::uint8_t { kCollective, kSend, kReceive };
  Kind kind = Kind::kCollective;
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kInt32;
  ReduceOp op = ReduceOp::kSum;
  Rank root = 0;  // of a transfer: the peer
  std::size_t count = 0;
  std::vector<std::size_t> counts = {}, receive_counts = {};
  std::string algorithm = {}, protocol = {};
  int channels = 1;
  enum class Place : std::uint8_t { kApart, kInPlace, kOverlapping, kRegistered };
  Place place = Place::kApart;
  std::uint64_t salt = 0;  // of the data

  std::string text() const;
};

// A message with a tag of its own, started by both ends among others in an order of their own.
struct Letter {
  Rank from = 0, to = 0;
  std::int32_t tag = 0;
  std::size_t count = 0, room = 0;  // int32 sent, and how many the receiver has room for
  bool any = false;                 // received from any rank
  bool other_type = false;          // … as uint32
  bool fits() const { return count <= room && !other_type; }
  std::string text() const;
};

// What becomes of a rank that is about to make its call number `call`: its number of calls is before finalize(), one
// more in its recovery.
struct Fate {
  enum class Kind : std::uint8_t { kLives, kKilled, kExits, kLeaves, kAborts, kStopped };
  Kind kind = Kind::kLives;
  int call = 0;
  std::int64_t after_us = 0;  // killed: by this time later, wherever it is then
  std::string text() const;
};

enum class Over : std::uint8_t { kThreads, kShm, kTcp, kMixed, kUcx };
inline constexpr const char* kNames[] = {"threads", "shm", "tcp", "shm+tcp", "ucx"};

// A life of one communicator: `before` equal sums, what every rank calls, messages with tags around an equal sum,
// `after` equal sums; then finalize, or agree and shrink and equal sums of those who are left.
struct Case {
  std::uint64_t seed = 0;
  Over over = Over::kThreads;
  Rank ranks = 2;
  std::string protocol = {};  // of the equal sums
  int before = 0, after = 0;
  std::vector<std::vector<Call>> calls = {};  // by rank
  std::vector<Letter> letters = {};
  std::vector<int> late_ms = {};  // by rank: before its calls
  std::string change = {};        // what differs; empty: nothing
  bool agrees = true;             // all ranks must get ok, if all live
  std::vector<Fate> fates = {};   // by rank
  bool splits = false;            // all this on a communicator that was split off, with all ranks
  bool recovers = false;
  bool arbiter = false;  // an arbiter outside the ranks decides who goes on

  static Case draw(std::uint64_t seed, Over over);
  // One with ranks that are killed, exit, leave, abort or are stopped; not over threads.
  static Case draw_with_deaths(std::uint64_t seed, Over over);
  int steps(std::size_t rank) const;  // calls before finalize()
  bool all_live() const;              // no rank ends, leaves or aborts
  std::string text() const;
};

struct Verdict {
  std::string wrong = {};              // empty: what happened is allowed
  bool mismatched = false;             // a rank got kMismatch
  bool explained = false;              // … with both calls and the field
  bool by_timeout = false;             // noticed only by waiting in vain
  std::vector<std::string> said = {};  // by rank: its error, or empty
};

// Lives through a case and judges every rank's answers: a result that came with ok is what the call specifies for ranks
// that have all made it, no byte beside the output was written, equal calls are served, a disagreement or a death is an
// error on a rank by the end of finalize() and names who is at fault, and all who recover agree on who they are.
// Ranks are threads of this process …
Verdict live(const Case& c);
// … or processes. The calling process must have no other threads.
Verdict live_in_processes(const Case& c);

}  // namespace weft::disagreement
