#pragma once

#include <algorithm>
#include <deque>
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
  std::vector<Range> stripes;  // that have come or are coming, of a striped message
  std::vector<Range> direct;   // parts that went where the strand wanted them, not into the block
};

// Both directions between this rank and a peer, one strand.
// How many messages a sender has under way is bounded (frame.h); what the receiver has taken it learns from `taken` of
// any frame of the strand that comes back. Counters only grow.
class Stream {
 public:
  std::uint64_t rails = 1;  // that share the messages under way: each as many as one alone, up to kMostUnderWay
  std::uint64_t signals_sent = 0;
  std::uint64_t signals_came = 0, signals_taken = 0;
  // Signal `number` of the peer has come, sent in a call with this tag.
  void signal_came(std::uint64_t number, std::uint64_t tag);
  // Is the next signal of a call with this tag? Signals that overtake others bring those along, with tags not yet
  // known.
  bool signal_agrees(std::uint64_t tag) const {
    return signal_tags_.empty() || !signal_tags_.front() || *signal_tags_.front() == tag;
  }
  void take_signal() {
    ++signals_taken;
    if (!signal_tags_.empty()) signal_tags_.pop_front();
  }

  // --- out ---
  std::uint64_t sent() const { return sent_; }
  // Whether there is room for one more message of `bytes`.
  bool has_room(Bytes bytes) const {
    const std::uint64_t under_way = sent_ - taken_by_peer_;
    return under_way < std::min<std::uint64_t>(kSlots * rails, kMostUnderWay) ||
           (under_way < kMostUnderWay && bytes_under_way_ + bytes <= kSmallUnderWay);
  }
  // Notes that a message of `bytes` has been sent whole.
  void note_sent(Bytes bytes);
  void peer_took(std::uint32_t count);

  // --- in ---
  std::uint64_t taken() const { return taken_; }
  Incoming& head() { return message(taken_ + 1); }
  // Requires: taken() < number <= taken() + kMostUnderWay.
  Incoming& message(std::uint64_t number);
  // Notes that the peer has been sent the count of what was taken.
  void note_reported() {
    reported_ = taken_;
    bytes_unreported_ = 0;
  }
  bool all_reported() const { return reported_ == taken_; }
  // Could the peer soon have no room for what it wants to send?
  bool must_tell() const {
    const std::uint64_t unreported = taken_ - reported_;
    return unreported >= kSlots / 2 && (unreported >= kMostUnderWay / 2 || bytes_unreported_ >= kSmallUnderWay / 2);
  }

  enum class Found { kNot, kHere, kMismatch };
  // Has this part of the next message come? kMismatch: what came belongs to another call, or ends elsewhere.
  Found find(Range part, bool last, std::uint64_t tag);
  // Directs that part to `target` from now on; null: nowhere in particular.
  void want(Range part, std::uint64_t tag, std::byte* target);
  // Where a frame's bytes go; null: it is out of turn.
  std::byte* place(const Frame& frame, Blocks& blocks);
  // True: it is of the next message.
  bool arrived(const Frame& frame, const std::byte* at);
  // A part that began to come will come again, from its first byte.
  void forget(const Frame& frame);
  // Requires: found. Where the part can be read in one piece: at its target, if some of it went there, else in its
  // block.
  const std::byte* settle(Range part, std::byte* target);
  // The next message has been taken.
  void release();

 private:
  std::byte* wanted_place(const Frame& frame) const;
  // Can the frame be the next of this message?
  static bool belongs(const Incoming& in, const Frame& frame);

  std::uint64_t sent_ = 0, taken_by_peer_ = 0;
  std::vector<std::uint32_t> sizes_;  // of messages under way: a ring
  Bytes bytes_under_way_ = 0;

  std::uint64_t taken_ = 0, reported_ = 0;  // reported: what the peer knows of it
  Bytes bytes_unreported_ = 0;
  std::byte* target_ = nullptr;
  Range wanted_;
  std::uint64_t wanted_tag_ = 0;
  std::deque<std::optional<std::uint64_t>> signal_tags_;  // of those that have come and were not taken
  std::vector<Incoming> in_{kSlots};                      // a ring, larger once more messages come
};

}  // namespace weft::net::messages
