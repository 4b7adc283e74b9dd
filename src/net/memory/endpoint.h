#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "exec/fabric/fabric.h"
#include "net/memory/doorbell.h"
#include "net/memory/lines.h"
#include "net/memory/prefetch.h"
#include "net/memory/ring.h"
#include "net/memory/segment.h"
#include "net/memory/store_choice.h"

namespace weft::net::memory {

protocol::Capabilities capabilities(std::string_view name);

// One rank's view of a segment: the fabric of ranks that share memory, as threads or as processes.
// Thread: one at a time. Owns: its cursors; the mapping must outlive it.
class Endpoint {
 public:
  // `addressable`: peers can reach any pointer of this rank (threads), not only the segment.
  Endpoint(Segment segment, Rank rank, bool addressable, std::string_view name);
  using Reach = std::span<const std::byte>;
  // Peers reach `reach`, as far from the segment's start as here, and what they offer lies in `peers`; null: anywhere.
  // `ring_bytes`: of Simple's messages, equal on all ranks.
  Endpoint(Segment segment, Rank rank, Reach reach, Reach peers, std::string_view name,
           std::size_t ring_bytes = kSmallRingBytes);

  const fabric::Capabilities& capabilities() const { return capabilities_; }
  Rank rank() const { return rank_; }
  const Segment& segment() const { return segment_; }

  // Can peers load and store there directly?
  bool reaches(const void* memory, Bytes bytes) const {
    const auto* p = static_cast<const std::byte*>(memory);
    return reach_.data() == nullptr || (p >= reach_.data() && p + bytes <= reach_.data() + reach_.size());
  }

  void begin(const fabric::Call& call);
  // What operations mean from now on; gives back what they meant. The call keeps its number.
  void exchange_call(fabric::Call& call);
  // Is memory from which something was posted still being read?
  bool reads(const std::byte*, Bytes) const { return false; }
  bool has_met(Rank) const { return true; }
  bool has_left(Rank peer) const {
    return segment_.block(peer).state.load(std::memory_order_acquire) == RankState::kLeft;
  }
  bool ready(int strand, const protocol::Operation& operation);
  fabric::Posted post(int strand, const protocol::Operation& operation);
  bool finished(int) const { return true; }  // every operation completes in post
  Rank unsettled() const { return -1; }      // … and leaves nothing to be read later

  // Whom a strand waits for at an operation that is not ready, for error messages.
  Rank blocker(int strand, const protocol::Operation& operation);
  // A peer that was seen to be in another call than this rank; -1 while none was.
  Rank mismatched() const { return mismatched_; }
  // Looks whether a peer that keeps this rank waiting has made the same calls; see mismatched(). Call it again and
  // again while the peer does.
  void compare_calls(Rank peer);
  // The first call in which this rank and mismatched() differ.
  fabric::Disagreement disagreement() const;
  bool awaits_reason(Rank) const { return false; }
  // A peer that has sent a message which nobody has received; -1: none.
  Rank unread();

  // For fabrics that are made of several: where a message's part lies until release(). Requires: protocol Simple; a
  // move of it is ready.
  const std::byte* received(const protocol::End& end) {
    const Link& l = link(end.peer, end.strand);
    return l.from_simple() + end.offset;
  }
  // Takes the part; the message's room is free again after its last.
  void release(const protocol::End& end, Bytes bytes) {
    if (end.last) release(link(end.peer, end.strand), end, bytes);
  }

 private:
  // From here on parts are streamed into slots, if the call streams at all: between near cores it costs as much as it
  // gains at 8 KiB for a single message and half as much at 4 KiB for many; between far ones it gains from 2 KiB
  // (bench/results/2026-11-22-slots.md).
  static constexpr Bytes kStreamedBytes = Bytes{8} << 10;

  using Lines64 = FlaggedLines<protocol::LineLL64>;
  using Lines128 = FlaggedLines<protocol::LineLL128>;
  using SimpleRing = Ring<1024, kSlotBytes>;  // units: a choice; small enough for a few lines
  using LinesRing = Ring<kLine, kLineSlotBytes>;
  static constexpr std::uint64_t kReportedTogether = 4;  // messages: a choice
  struct Begun {
    std::uint64_t simple = 0, ll64 = 0;  // where the rings were when a message was sent
  };
  // Both directions between this rank and a peer, one strand: shared memory and private cursors.
  struct Link {
    Connection* out = nullptr;
    Connection* in = nullptr;
    std::uint64_t sent = 0, taken_by_peer = 0;  // messages; the latter a cached out->head
    Begun freed = {};                           // what the peer had left of the rings by then
    std::uint64_t received = 0;
    std::uint64_t reported = 0, reported_simple = 0,
                  reported_ll64 = 0;  // of what was received: the count stored last, the rings
    SimpleRing out_simple{kSmallRingBytes}, in_simple{kSmallRingBytes};
    LinesRing out_ll64{kSlots * kLineSlotBytes}, in_ll64{kSlots * kLineSlotBytes};
    StoreChoice choice;        // of large messages, if calls let it be tried
    std::vector<Begun> begun;  // by message; empty until the first is sent
    std::uint64_t signals_sent = 0, signals_taken = 0;
    std::vector<std::byte> unpacked, unsent;  // line protocols: messages longer than a line, without their flags

    // The place where the next message begins.
    std::byte* to_simple() const { return out->simple + out_simple.place(); }
    std::byte* to_lines(protocol::Protocol of) const { return lines(*out, of, out_ll64.place(), sent); }
    const std::byte* from_simple() const { return in->simple + in_simple.place(); }
    const std::byte* from_lines(protocol::Protocol of) const { return lines(*in, of, in_ll64.place(), received); }

   private:
    static std::byte* lines(Connection& c, protocol::Protocol of, std::size_t ll64, std::uint64_t messages) {
      if (of == protocol::Protocol::kLL64) return c.ll64 + ll64;
      return (of == protocol::Protocol::kLL128 ? c.ll128 : c.ll)[protocol::slot_after(messages)];
    }
  };

  Link& link(Rank peer, int strand) { return links_[static_cast<std::size_t>(peer * kConnections + strand)]; }
  const Link& link(Rank peer, int strand) const {
    return links_[static_cast<std::size_t>(peer * kConnections + strand)];
  }
  // Messages: `end` is the operation's part of one, `bytes` its length.
  bool arrived(Link& link, const protocol::End& end, Bytes bytes);
  bool has_room(Link& link, const protocol::End& end, Bytes bytes) const;
  bool fits(const Link& link, const protocol::End& end, Bytes bytes) const;
  const std::byte* whole(const Link& link, const protocol::End& end, Bytes bytes) const;
  void unpack(const Link& link, const protocol::End& end, Bytes bytes, std::byte* to) const;
  const std::byte* take(Link& link, const protocol::End& end, Bytes bytes);
  void release(Link& link, const protocol::End& end, Bytes bytes);
  void release_lines(Link& link, Rank peer, std::size_t length);
  void count_taken(Link& link, Rank peer, bool reports);
  void prefetch_next(const Link& link, Bytes bytes) const;
  static void pass_lines(Link& link, std::size_t length);
  static std::uint64_t count_sent(Link& link);
  void publish(Link& link, const protocol::End& end, Bytes bytes, const std::byte* packed_from);
  std::byte* slot(Link& link, const protocol::End& end, Bytes bytes);
  // The protocol by which a message of `bytes` crosses.
  protocol::Protocol protocol_of(Bytes bytes) const {
    return bytes > 0 && bytes <= call_.lines_up_to ? protocol::Protocol::kLL64 : call_.protocol;
  }
  // Has the next message come as another than the one that is waited for? Requires: the call has lines_up_to.
  bool came_otherwise(const Link& link, const protocol::End& end, Bytes bytes) const;
  std::uint32_t tag_of(const protocol::End& end) const { return tag_ ^ end.tag; }
  bool waits_in_vain(Link& link, const protocol::End& end, std::uint64_t flag);
  bool begins_otherwise(const Link& link, const protocol::End& end, std::uint64_t flag);
  static std::size_t on_lines(Bytes bytes) {
    return Lines64::begin_of(Lines64::lines(static_cast<std::size_t>(bytes)));
  }
  // Is the message one line that sums can be stored into at once?
  bool one_line(const protocol::End& end, Bytes bytes) const;
  bool streams(const protocol::End& end, Bytes bytes) const;
  bool packs(const protocol::End& end, Bytes bytes) const;
  void send(Link& link, const protocol::End& end, Bytes bytes, const std::byte* packed);
  std::byte* local(protocol::Memory memory) const;
  // Did the peer publish this very call, with a buffer that has these bytes where peers' memory lies? Requires: a
  // signal of the peer in this call was waited for. What the peer wrote is copied once and never read again.
  bool agrees(const protocol::End& end, Bytes bytes);
  // Has the next signal of a peer come, in this call?
  bool signalled(Link& link, Rank peer);
  std::byte* remote(Rank peer, protocol::Memory memory);
  // Where the bytes of an end are that is memory.
  std::byte* place(const protocol::End& end);
  // What a source is multiplied by. Requires: the call scales.
  Scalar scale_of(const protocol::End& end) const;
  // Is a message of this end one that StoreChoice counts? Requires: the operation has at least kStreamedBytes.
  bool counts(const protocol::End& end, Bytes bytes) const {
    return end.kind == protocol::End::Kind::kMessage && end.offset == 0 && end.last &&
           protocol_of(bytes) == protocol::Protocol::kSimple;
  }
  void move_counted(const protocol::Operation& operation);
  void move_any(const protocol::Operation& operation);
  void move(const protocol::Operation& operation);
  // Does a small value go from one place to several, of which messages are whole? So a small broadcast's root does.
  bool spreads(const protocol::Operation& operation) const;
  void spread(const protocol::Operation& operation);
  void copy(const protocol::Operation& operation);
  void copy_between_places(const protocol::End& from, const protocol::End& to, Bytes bytes);
  void send_lines(const std::byte* from, const protocol::End& to, Bytes bytes);
  void receive_lines(const protocol::End& from, const protocol::End& to, Bytes bytes);

  Segment segment_;
  Rank rank_;
  Reach reach_, peers_;  // own memory that peers reach, and where that of peers lies; null: anywhere
  struct Published {
    std::uint64_t call = 0;  // 0: none
    std::int64_t in = 0, out = 0;
  };
  std::vector<Published> published_;  // by peer: a copy of its board, of the call that this rank is in
  fabric::Capabilities capabilities_;
  fabric::Call call_;
  std::uint64_t calls_ = 0;
  std::uint32_t tag_ = 0;
  Rank mismatched_ = -1;
  struct Passed {
    Rank peer = -1;
    std::uint64_t in = 0;  // this rank's call
  };
  Passed passed_;  // a peer that was seen in a later call while this rank waited for it
  std::vector<Link> links_;
  std::vector<const std::byte*> sources_;  // of the current move
  std::vector<std::byte*> destinations_;
  std::vector<Scalar> scales_;    // of the sources, if one is scaled
  std::vector<std::byte> value_;  // what goes only into messages that are packed
  struct TimedLoad {
    Connection* in = nullptr;
    std::uint64_t number = 0, place = 0;
  };
  std::vector<TimedLoad> timed_loads_;      // of the current move …
  std::vector<StoreChoice*> timed_stores_;  // … and whose stores are timed
};

// Is what is there, instead of the message that is waited for, due or even later? Then the peer made other calls.
inline bool Endpoint::waits_in_vain(Link& l, const protocol::End& end, std::uint64_t flag) {
  const std::int32_t behind = messages_behind(l.received + 1, flag);
  if (behind < 0 || behind >= static_cast<std::int32_t>(kLinesUnderWay)) return false;
  mismatched_ = end.peer;
  return true;
}

// Is the message due, but of other calls? Shorter ones lack the line that is waited for, but not the first.
inline bool Endpoint::begins_otherwise(const Link& l, const protocol::End& end, std::uint64_t flag) {
  const std::uint64_t expected = l.received + 1;
  if (!is_of(expected, flag) || flag == flag_of(expected, tag_of(end))) return false;
  mismatched_ = end.peer;
  return true;
}

inline bool Endpoint::arrived(Link& l, const protocol::End& end, Bytes bytes) {
  const std::uint64_t expected = l.received + 1, wanted = flag_of(expected, tag_of(end));
  const auto until = static_cast<std::size_t>(end.offset + bytes);
  std::uint64_t flag = 0;
  switch (protocol_of(bytes)) {
    case protocol::Protocol::kLL64: {
      const std::byte* const lines = l.from_lines(protocol::Protocol::kLL64);
      flag = Lines64::flag_of(lines, until);
      if (flag == wanted) [[likely]]
        return true;
      if (until > Lines64::kData && begins_otherwise(l, end, Lines64::flag_of(lines, 1))) return false;
      if (waits_in_vain(l, end, flag)) return false;
      prefetch(lines, Lines64::begin_of(Lines64::line_of(until - 1)));  // all but the one looked at
      break;
    }
    case protocol::Protocol::kLL128:
      flag = Lines128::flag_of(l.from_lines(protocol::Protocol::kLL128), until);
      if (flag == wanted) return true;
      if (!begins_otherwise(l, end, flag))
        begins_otherwise(l, end, Lines128::flag_of(l.from_lines(protocol::Protocol::kLL128), 1));
      return false;
    case protocol::Protocol::kLL:
      flag = FlaggedWords::flag_of(l.from_lines(protocol::Protocol::kLL), until);
      return !begins_otherwise(l, end, l.in->tail.of(expected).load(std::memory_order_acquire)) &&
             flag == protocol::short_flag_of(expected);
    case protocol::Protocol::kSimple:
    case protocol::Protocol::kDirect:
      flag = l.in->tail.latest.load(std::memory_order_acquire);
      if (flag == wanted) [[likely]]
        return true;
      if (messages_behind(expected, flag) > 0) {  // the sender is ahead
        flag = l.in->tail.of(expected).load(std::memory_order_relaxed);
        if (flag == wanted) return true;
        mismatched_ = end.peer;
        return false;
      }
      if (waits_in_vain(l, end, flag)) return false;
      if (bytes < kStreamedBytes) prefetch(l.from_simple(), until);
      break;
  }
  if (call_.lines_up_to > 0 && came_otherwise(l, end, bytes)) mismatched_ = end.peer;
  return false;
}

// Of a message that comes in parts only the first is known.
inline bool Endpoint::fits(const Link& l, const protocol::End& end, Bytes bytes) const {
  const std::uint64_t under_way = l.sent - l.taken_by_peer;
  switch (protocol_of(bytes)) {
    case protocol::Protocol::kLL64:
      return under_way < kLinesUnderWay &&
             l.out_ll64.has_room(end.last ? on_lines(bytes) : kLineSlotBytes, l.freed.ll64);
    case protocol::Protocol::kSimple:
    case protocol::Protocol::kDirect:
      return under_way < kUnderWay &&
             l.out_simple.has_room(end.last ? static_cast<std::size_t>(bytes) : kSlotBytes, l.freed.simple);
    default:
      return protocol::has_room(l.sent, l.taken_by_peer);
  }
}

inline bool Endpoint::has_room(Link& l, const protocol::End& end, Bytes bytes) const {
  if (fits(l, end, bytes)) return true;
  l.taken_by_peer = l.out->head.value.load(std::memory_order_acquire);
  l.freed = l.taken_by_peer == l.sent ? Begun{l.out_simple.at(), l.out_ll64.at()}
                                      : l.begun[(l.taken_by_peer + 1) % kLinesUnderWay];
  return fits(l, end, bytes);
}

// A sender that waits for room looks at the count all the time, and every store of it then costs a trip between the
// cores: small messages are counted a few at a time. At most 3 messages and less than an eighth of a ring are not
// reported yet, so that a sender whose messages were all taken always finds room for another.
inline void Endpoint::count_taken(Link& l, Rank peer, bool reports) {
  ++l.received;
  if (!reports && l.received - l.reported < kReportedTogether) return;
  l.reported = l.received, l.reported_simple = l.in_simple.at(), l.reported_ll64 = l.in_ll64.at();
  l.in->head.value.store(l.received, std::memory_order_release);
  Doorbell::notify(segment_.block(peer));
}

// Releases a message in `length` bytes of lines.
inline void Endpoint::release_lines(Link& l, Rank peer, std::size_t length) {
  l.in_ll64.pass(length);
  count_taken(l, peer, l.in_ll64.at() - l.reported_ll64 >= kLineSlotBytes);
}

inline void Endpoint::release(Link& l, const protocol::End& end, Bytes bytes) {
  const Bytes whole = end.offset + bytes;
  switch (protocol_of(bytes)) {
    case protocol::Protocol::kLL64:
      return release_lines(l, end.peer, on_lines(whole));
    case protocol::Protocol::kSimple:
    case protocol::Protocol::kDirect:
      l.in_simple.pass(static_cast<std::size_t>(whole));
      return count_taken(l, end.peer, l.in_simple.at() - l.reported_simple >= kSlotBytes);
    default:
      return count_taken(l, end.peer, true);
  }
}

// One that a later signal has replaced may be of an earlier call than that.
inline bool Endpoint::signalled(Link& l, Rank peer) {
  const std::uint64_t expected = l.signals_taken + 1;
  const std::uint64_t flag = l.in->signals.of(expected).load(std::memory_order_acquire);
  if (flag == flag_of(expected, tag_)) [[likely]]
    return true;
  const std::int32_t behind = messages_behind(expected, flag);
  if (behind == 0) mismatched_ = peer;
  return behind > 0;
}

inline bool Endpoint::ready(int strand, const protocol::Operation& operation) {
  using Kind = protocol::Operation::Kind;
  if (operation.kind == Kind::kSignal) return true;
  if (operation.kind == Kind::kWait) {
    return signalled(link(operation.peer, strand), operation.peer);
  }
  for (const protocol::End& end : operation.sources) {
    if (end.kind == protocol::End::Kind::kMessage && !arrived(link(end.peer, end.strand), end, operation.bytes))
      return false;
    if (end.kind == protocol::End::Kind::kRemote && !agrees(end, operation.bytes)) return false;
  }
  for (const protocol::End& end : operation.destinations) {
    if (end.kind == protocol::End::Kind::kMessage && end.offset == 0 &&
        !has_room(link(end.peer, end.strand), end, operation.bytes))
      return false;
    if (end.kind == protocol::End::Kind::kRemote && !agrees(end, operation.bytes)) return false;
  }
  return true;
}

inline void Endpoint::move_any(const protocol::Operation& operation) {
  const bool one_each = operation.sources.size() == 1 && operation.destinations.size() == 1;
  one_each && !call_.scale ? copy(operation) : move(operation);
}

inline fabric::Posted Endpoint::post(int strand, const protocol::Operation& operation) {
  using Kind = protocol::Operation::Kind;
  if (operation.kind == Kind::kMove) {
    operation.bytes >= kStreamedBytes&& call_.tries_slots ? move_counted(operation) : move_any(operation);
  } else if (operation.kind == Kind::kSignal) {
    Link& l = link(operation.peer, strand);
    const std::uint64_t number = ++l.signals_sent;
    l.out->signals.of(number).store(flag_of(number, tag_), std::memory_order_release);
    Doorbell::notify(segment_.block(operation.peer));
  } else {
    ++link(operation.peer, strand).signals_taken;
  }
  return fabric::Posted::kDone;
}

static_assert(fabric::Endpoint<Endpoint>);

}  // namespace weft::net::memory
