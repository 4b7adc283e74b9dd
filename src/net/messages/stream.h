#pragma once

#include <optional>
#include <vector>

#include "net/messages/block.h"
#include "net/messages/frame.h"

namespace weft::net::messages {

// The bytes of a message that an operation takes.
struct Range {
  Bytes begin = 0, end = 0;
};

// A message on its way in.
struct Incoming {
  Block block;
  Bytes received = 0, total = -1;
  std::uint64_t tag = 0;
  std::optional<Sum> sum;  // of which it is a part
  bool begun = false, striped = false;
  std::vector<Range> direct;  // parts that went where the strand wanted them, not into the block
};

// Both directions between this rank and a peer, one strand.
// A sender has at most kSlots messages under way; what the receiver has taken it learns from `taken` of any frame of
// the strand that comes back. Counters only grow.
class Stream {
 public:
  std::uint64_t sent = 0, signals_sent = 0;
  std::uint64_t taken = 0, told = 0;  // messages; told: what the peer knows of it
  std::uint64_t signals_came = 0, signals_taken = 0;

  Incoming& head() { return in_[taken % kSlots]; }
  Incoming& message(std::uint64_t number) { return in_[(number - 1) % kSlots]; }
  bool has_room() const { return sent - taken_by_peer_ < kSlots; }
  void peer_took(std::uint32_t count) {
    const auto more = static_cast<std::int32_t>(count - static_cast<std::uint32_t>(taken_by_peer_));
    if (more > 0) taken_by_peer_ += static_cast<std::uint32_t>(more);
  }

  enum class Found { kNot, kHere, kMismatch };
  // Has this part of the next message come? kMismatch: what came belongs to another call, or ends elsewhere.
  Found find(Range part, bool last, std::uint64_t tag);
  // From now on that part goes to `target`; null: nowhere in particular.
  void want(Range part, std::uint64_t tag, std::byte* target);
  // Where a frame's bytes go; null: it is out of turn.
  std::byte* place(const Frame& frame, Blocks& blocks);
  // True: it is of the next message.
  bool arrived(const Frame& frame, const std::byte* at);
  // Requires: found. Where the part can be read in one piece: at its target, if some of it went there, else in its
  // block.
  const std::byte* settle(Range part, std::byte* target);
  // The next message has been taken.
  void release();

 private:
  std::byte* wanted_place(const Frame& frame) const;

  std::uint64_t taken_by_peer_ = 0;
  std::byte* target_ = nullptr;
  Range wanted_;
  std::uint64_t wanted_tag_ = 0;
  Incoming in_[kSlots];
};

}  // namespace weft::net::messages
