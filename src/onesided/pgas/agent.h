#pragma once

#include <span>

#include "onesided/pgas/trace.h"

namespace weft::pgas {

// Carries operations out at peers whose memory is not mapped here: what remote.h turns to where load and store end.
// Completion is that of the seam: on return of put() and of update() the source may be changed (local completion);
// quiet() makes everything visible; fence() orders what follows to a peer behind what went before.
// Thread: any number at a time. Errors: a peer that has gone ends the process with a line that says so, as Space's
// misuse.
class Agent {
 public:
  virtual ~Agent() = default;

  virtual void put(Rank peer, Place to, std::span<const std::byte> from) = 0;
  virtual void get(Rank peer, Place from, std::span<std::byte> to) = 0;
  // Atomic on `bytes` (4 or 8) at `at`. update() asks for no answer; fetch() returns the old value.
  virtual void update(Rank peer, Place at, std::size_t bytes, AtomicOp op, std::uint64_t operand) = 0;
  virtual std::uint64_t fetch(Rank peer, Place at, std::size_t bytes, AtomicOp op, std::uint64_t operand,
                              std::uint64_t compare) = 0;
  virtual void fence() = 0;
  virtual void quiet() = 0;
};

}  // namespace weft::pgas
