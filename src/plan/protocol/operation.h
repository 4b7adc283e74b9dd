#pragma once

#include "base/small_list.h"
#include "base/units.h"
#include "plan/protocol/protocol.h"

namespace weft::protocol {

// Operations cross the seam between the interpreter and a fabric: schedule steps, cut to slices and addressed in bytes.
// (schedule/lower makes them, exec/ orders them, fabrics execute them.)
// A message may be put together by several operations of a strand and be taken apart by several: parts follow each
// other without a gap, and both ends agree where a message ends but not on its parts. The sender's parts may travel at
// once or only when the message has ended; a slot is taken by the first part and free again after the last is taken.

enum class Memory : std::uint8_t { kIn, kOut, kScratch };

struct End {
  // kMulticast, kAggregation: see plan/schedule/step.h; only on fabrics that advertise switches which do that.
  enum class Kind : std::uint8_t { kLocal, kMessage, kRemote, kMulticast, kAggregation };
  Kind kind = Kind::kLocal;
  Memory memory = Memory::kIn;
  bool last = true;         // messages: the message ends with this part
  std::int16_t strand = 0;  // messages: which of the connections between the two ranks
  std::uint32_t tag = 0;    // messages: what both ends must agree on besides the call
  Rank peer = -1;
  Rank count = 0, stride = 0;  // of a group of ranks, whose first is `peer`
  Bytes offset = 0;            // in the rank's or peer's memory; of a message: of this part in the message

  bool operator==(const End&) const = default;
};

struct Operation {
  enum class Kind : std::uint8_t { kMove, kSignal, kWait };
  Kind kind = Kind::kMove;
  Rank peer = -1;            // signal, wait
  std::int16_t strand = -1;  // signal, wait: between strands of this rank, the other one; no fabric sees it
  Bytes bytes = 0;           // move
  // Of a move. Of a signal or a wait where only time passes: if any, it is for all these ranks at once, as switches
  // that multicast do it, each end `count` ranks from `peer` on; `peer` of the operation is the first.
  SmallList<End, 2> sources, destinations;

  // A signal to another strand of the same rank, or the wait for one.
  bool own() const { return strand >= 0; }
  bool signals() const { return kind == Kind::kSignal; }
  bool operator==(const Operation&) const = default;
};

}  // namespace weft::protocol
