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

enum class Over : std::uint8_t { kThreads, kShm, kTcp, kMixed, kUcx };
inline constexpr const char* kNames[] = {"threads", "shm", "tcp", "shm+tcp", "ucx"};

// A life of one communicator: `before` equal sums, what every rank calls, messages with tags around an equal sum,
// `after` equal sums, finalize.
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
  bool agrees = true;             // all ranks must get ok

  static Case draw(std::uint64_t seed, Over over);
  std::string text() const;
};

struct Verdict {
  std::string wrong = {};              // empty: what happened is allowed
  bool mismatched = false;             // a rank got kMismatch
  bool explained = false;              // … with both calls and the field
  bool by_timeout = false;             // noticed only by waiting in vain
  std::vector<std::string> said = {};  // by rank: its error, or empty
};

// Lives through a case on threads of this process, and judges every rank's answers: a result that came with ok is what
// the call specifies for ranks that have all made it, no byte beside the output was written, equal calls are served,
// and a disagreement is an error on a rank by the end of finalize().
Verdict live(const Case& c);

}  // namespace weft::disagreement
