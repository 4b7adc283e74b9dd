#include "net/memory/endpoint.h"

#include <algorithm>

#include "base/streamed_copy.h"

namespace weft::net::memory {

using protocol::End;
using protocol::Memory;
using protocol::Operation;
using protocol::Protocol;

protocol::Capabilities capabilities(std::string_view name) {
  return {.name = name,
          .load_store = true,
          .max_strands = kStrands,
          .max_slice = kSlotBytes,
          .line_slot_bytes = kLineSlotBytes,
          .scratch_bytes = kScratchBytes,
          .lines_under_way = kLinesUnderWay,
          .simple_under_way = kUnderWay};
}

Endpoint::Endpoint(Segment segment, Rank rank, bool addressable, std::string_view name)
    : Endpoint(segment, rank,
               addressable ? Reach{} : Reach{segment.heap(rank), static_cast<std::size_t>(segment.heap_bytes())},
               addressable ? Reach{} : Reach{segment.heap(0), segment.heap(segment.ranks() - 1) + segment.heap_bytes()},
               name) {}

Endpoint::Endpoint(Segment segment, Rank rank, Reach reach, Reach peers, std::string_view name, std::size_t ring_bytes)
    : segment_(segment),
      rank_(rank),
      reach_(reach),
      peers_(peers),
      published_(static_cast<std::size_t>(segment.ranks())),
      capabilities_(memory::capabilities(name)),
      links_(static_cast<std::size_t>(segment.ranks() * kConnections)) {
  for (Rank peer = 0; peer < segment.ranks(); ++peer) {
    for (int strand = 0; strand < kConnections; ++strand) {
      Link& l = link(peer, strand);
      l.out = &segment.connection(rank, peer, strand);
      l.in = &segment.connection(peer, rank, strand);
      l.out_simple = l.in_simple = SimpleRing(ring_bytes);
    }
  }
}

void Endpoint::begin(const fabric::Call& call) {
  call_ = call;
  tag_ = memory::tag_of(call.signature);
  if (!call.everybody) return;
  ++calls_;
  RankBlock& self = segment_.block(rank_);
  Board& board = self.boards[calls_ % kBoards];
  board.call.store(0, std::memory_order_relaxed);
  board.signature.store(call.signature, std::memory_order_release);
  self.signatures[calls_ % kSignatures].store(call.signature, std::memory_order_relaxed);
  board.count.store(call.description.count, std::memory_order_relaxed);
  board.fields.store(call.description.fields, std::memory_order_relaxed);
  if (call.publishes) {
    board.in.store(call.in - segment_.base(), std::memory_order_relaxed);
    board.out.store(call.out - segment_.base(), std::memory_order_relaxed);
    if (call.scale) {
      board.scale_real.store(call.scale->real, std::memory_order_relaxed);
      board.scale_integer.store(call.scale->integer, std::memory_order_relaxed);
    }
  }
  board.call.store(calls_, std::memory_order_release);
}

void Endpoint::exchange_call(fabric::Call& call) {
  std::swap(call_, call);
  tag_ = memory::tag_of(call_.signature);
}

inline bool Endpoint::one_line(const End& end, Bytes bytes) const {
  if (end.offset != 0 || !end.last) return false;
  const Protocol protocol = protocol_of(bytes);
  return (protocol == Protocol::kLL64 && bytes <= static_cast<Bytes>(Lines64::kData)) ||
         (protocol == Protocol::kLL128 && bytes <= static_cast<Bytes>(Lines128::kData));
}

// Where the bytes lie one after the other; null: their lines must be unpacked.
const std::byte* Endpoint::whole(const Link& l, const End& end, Bytes bytes) const {
  const Protocol protocol = protocol_of(bytes);
  if (protocol == Protocol::kSimple) return l.from_simple() + end.offset;
  if (!one_line(end, bytes)) return nullptr;
  return l.from_lines(protocol);
}

void Endpoint::unpack(const Link& l, const End& end, Bytes bytes, std::byte* to) const {
  const auto offset = static_cast<std::size_t>(end.offset), size = static_cast<std::size_t>(bytes);
  const Protocol protocol = protocol_of(bytes);
  const std::byte* const lines = l.from_lines(protocol);
  if (protocol == Protocol::kLL64)
    Lines64::unpack(lines, offset, size, to);
  else if (protocol == Protocol::kLL128)
    Lines128::unpack(lines, offset, size, to);
  else
    FlaggedWords::unpack(lines, offset, size, to);
}

const std::byte* Endpoint::take(Link& l, const End& end, Bytes bytes) {
  if (const std::byte* bytes_there = whole(l, end, bytes)) return bytes_there;
  l.unpacked.resize(kLineSlotBytes);
  unpack(l, end, bytes, l.unpacked.data());
  return l.unpacked.data();
}

// Messages of both protocols are numbered together. Shorter ones lack the line that is waited for.
bool Endpoint::came_otherwise(const Link& l, const End& end, Bytes bytes) const {
  const std::uint64_t expected = l.received + 1;
  const bool simple = is_of(expected, l.in->tail.of(expected).load(std::memory_order_acquire));
  const std::uint64_t flag = Lines64::flag_of(l.from_lines(Protocol::kLL64), 1);
  const bool lines = is_of(expected, flag);
  if (protocol_of(bytes) != Protocol::kLL64) return lines;
  return lines ? flag != flag_of(expected, tag_of(end)) : simple;
}

// The next message may be there already, most likely as long as the last: its lines are then under way while the caller
// does something else.
inline void Endpoint::prefetch_next(const Link& l, Bytes bytes) const {
  const Protocol protocol = protocol_of(bytes);
  if (protocol == Protocol::kLL64)
    prefetch(l.from_lines(protocol), on_lines(bytes));
  else if (protocol == Protocol::kSimple && bytes < kStreamedBytes &&
           messages_behind(l.received + 1, l.in->tail.latest.load(std::memory_order_relaxed)) >= 0)
    prefetch(l.from_simple(), static_cast<std::size_t>(bytes));
}

// Goes on after a message in lines and prefetches the message after the next: no receiver reads there yet, while one
// that waits reads the next one's. Between far cores broadcasts of one or two lines take half the
// time, longer ones gain nothing (bench/results/2026-11-23-small-broadcasts.md).
inline void Endpoint::pass_lines(Link& l, std::size_t length) {
  l.out_ll64.pass(length);
  const std::size_t ahead = l.out_ll64.place() + length;
  if (length <= 2 * kLine && ahead + length <= sizeof l.out->ll64) prefetch_to_write(l.out->ll64 + ahead, length);
}

std::byte* Endpoint::slot(Link& l, const End& end, Bytes bytes) {
  const Protocol protocol = protocol_of(bytes);
  if (protocol == Protocol::kSimple) {
    std::byte* to = l.to_simple() + end.offset;
    if (bytes < kStreamedBytes) prefetch_to_write(to, static_cast<std::size_t>(bytes));
    return to;
  }
  if (one_line(end, bytes)) return l.to_lines(protocol);
  l.unsent.resize(kLineSlotBytes);
  return l.unsent.data() + end.offset;
}

// Numbers the next message, and keeps where it begins.
inline std::uint64_t Endpoint::count_sent(Link& l) {
  if (l.begun.empty()) [[unlikely]]
    l.begun.resize(kLinesUnderWay);
  l.begun[++l.sent % kLinesUnderWay] = {l.out_simple.at(), l.out_ll64.at()};
  return l.sent;
}

// `packed_from`: where the message's bytes are, for line protocols and messages longer than a line.
void Endpoint::publish(Link& l, const End& end, Bytes bytes, const std::byte* packed_from) {
  const Protocol protocol = protocol_of(bytes);
  std::byte* const lines = l.to_lines(protocol);
  const std::uint64_t number = count_sent(l);
  const std::uint64_t flag = flag_of(number, tag_of(end));
  const auto size = static_cast<std::size_t>(end.offset + bytes);
  const bool in_place = one_line(end, bytes);
  switch (protocol) {
    case Protocol::kLL64:
      if (in_place)
        Lines64::flag(lines, 0).store(flag, std::memory_order_release);
      else
        Lines64::pack(lines, packed_from, size, flag);
      pass_lines(l, on_lines(end.offset + bytes));
      break;
    case Protocol::kLL128:
      if (in_place)
        Lines128::flag(lines, 0).store(flag, std::memory_order_release);
      else
        Lines128::pack(lines, packed_from, size, flag);
      break;
    case Protocol::kLL:
      if (protocol::clears_slot(number)) std::memset(lines, 0, kLineSlotBytes);
      l.out->tail.of(number).store(flag, std::memory_order_release);
      FlaggedWords::pack(lines, packed_from, size, protocol::short_flag_of(number));
      break;
    case Protocol::kSimple:
    case Protocol::kDirect:
      l.out->tail.of(number).store(flag, std::memory_order_relaxed);
      l.out->tail.latest.store(flag, std::memory_order_release);
      l.out_simple.pass(size);
      break;
  }
  Doorbell::notify(segment_.block(end.peer));
}

// A part of a message whose bytes are in its slot or unsent, or else, packed, at `packed`.
void Endpoint::send(Link& l, const End& end, Bytes bytes, const std::byte* packed) {
  if (packed != nullptr && protocol_of(bytes) == Protocol::kSimple)
    streamed_copy(slot(l, end, bytes), packed, static_cast<std::size_t>(bytes));
  if (end.last) publish(l, end, bytes, packed != nullptr ? packed : l.unsent.data());
}

inline std::byte* Endpoint::local(Memory memory) const {
  switch (memory) {
    case Memory::kIn:
      return const_cast<std::byte*>(call_.in);  // only ever a source
    case Memory::kOut:
      return call_.out;
    case Memory::kScratch:
      return segment_.scratch(rank_);
  }
  return nullptr;
}

bool Endpoint::agrees(const End& end, Bytes bytes) {
  Published& published = published_[static_cast<std::size_t>(end.peer)];
  if (published.call != calls_) {
    const Board& board = segment_.block(end.peer).boards[calls_ % kBoards];
    if (board.call.load(std::memory_order_acquire) != calls_ ||
        board.signature.load(std::memory_order_relaxed) != call_.signature) {
      mismatched_ = end.peer;
      return false;
    }
    published = {calls_, board.in.load(std::memory_order_relaxed), board.out.load(std::memory_order_relaxed)};
  }
  if (end.memory == Memory::kScratch || peers_.data() == nullptr) return true;
  // The arithmetic is done on integers: a pointer that far from the segment need not exist.
  const auto begin = reinterpret_cast<std::uintptr_t>(peers_.data());
  const auto at = reinterpret_cast<std::uintptr_t>(segment_.base()) +
                  static_cast<std::uintptr_t>(end.memory == Memory::kIn ? published.in : published.out) +
                  static_cast<std::uintptr_t>(end.offset);
  const auto size = static_cast<std::uintptr_t>(bytes);
  if (at >= begin && size <= peers_.size() && at - begin <= peers_.size() - size) return true;
  mismatched_ = end.peer;
  return false;
}

// Of the calls that both have begun, the latest is enough: the signatures of calls behind one that differs differ, too.
// A peer that is in a later call has done all that this one asks of it: whatever is still missing at the next look
// will never come.
void Endpoint::compare_calls(Rank peer) {
  if (!call_.everybody) return;  // the peer may well be in another call
  const RankBlock& theirs = segment_.block(peer);
  const std::uint64_t latest = theirs.latest_call(), both = std::min(latest, calls_);
  if (both == 0) return;
  const std::uint64_t signature = theirs.signatures[both % kSignatures].load(std::memory_order_acquire);
  const bool kept = theirs.latest_call() < both + kSignatures;
  const std::uint64_t own = segment_.block(rank_).signatures[both % kSignatures].load(std::memory_order_relaxed);
  if (kept && calls_ < both + kSignatures && signature != own) mismatched_ = peer;
  if (latest <= calls_) return;
  if (passed_.peer == peer && passed_.in == calls_) mismatched_ = peer;
  passed_ = {peer, calls_};
}

Rank Endpoint::unread() {
  for (Rank peer = 0; peer < segment_.ranks(); ++peer)
    for (int strand = 0; strand < kStrands; ++strand) {
      const Link& l = link(peer, strand);
      const std::uint64_t next = l.received + 1;
      if (is_of(next, l.in->tail.of(next).load(std::memory_order_acquire)) ||
          is_of(next, Lines64::flag_of(l.from_lines(Protocol::kLL64), 1)) ||
          is_of(next, Lines128::flag_of(l.from_lines(Protocol::kLL128), 1)))
        return peer;
    }
  return -1;
}

inline std::byte* Endpoint::remote(Rank peer, Memory memory) {
  if (memory == Memory::kScratch) return segment_.scratch(peer);
  const Published& published = published_[static_cast<std::size_t>(peer)];
  return segment_.base() + (memory == Memory::kIn ? published.in : published.out);
}

inline std::byte* Endpoint::place(const End& end) {
  WEFT_ASSERT(end.kind == End::Kind::kLocal || end.kind == End::Kind::kRemote, "no such switch");
  return (end.kind == End::Kind::kLocal ? local(end.memory) : remote(end.peer, end.memory)) + end.offset;
}

// All ranks scale or none does: the signature says so.
Scalar Endpoint::scale_of(const End& end) const {
  if (!fabric::scales(end)) return {};
  if (end.kind == End::Kind::kLocal) return *call_.scale;
  const Board& board = segment_.block(end.peer).boards[calls_ % kBoards];
  return {board.scale_real.load(std::memory_order_relaxed), board.scale_integer.load(std::memory_order_relaxed)};
}

// Large parts that another rank reads next: into a slot, or into scratch.
inline bool Endpoint::streams(const End& end, Bytes bytes) const {
  if (bytes < kStreamedBytes) return false;
  if (end.kind == End::Kind::kMessage)
    return (call_.tries_slots ? link(end.peer, end.strand).choice.streams() : call_.streams_slots) &&
           protocol_of(bytes) == Protocol::kSimple;
  return call_.streams_scratch && end.memory == Memory::kScratch;
}

// What is put into its place from wherever its value is, not by the fold: what is streamed, and whole messages of
// several lines.
bool Endpoint::packs(const End& end, Bytes bytes) const {
  if (end.kind != End::Kind::kMessage || protocol_of(bytes) == Protocol::kSimple) return streams(end, bytes);
  return end.offset == 0 && end.last && !one_line(end, bytes);
}

// A whole message in lines, to a peer or from one: all that most operations of small calls are.
inline void Endpoint::send_lines(const std::byte* from, const End& to, Bytes bytes) {
  Link& l = link(to.peer, to.strand);
  std::byte* const lines = l.to_lines(Protocol::kLL64);
  Lines64::pack(lines, from, static_cast<std::size_t>(bytes), flag_of(count_sent(l), tag_of(to)));
  pass_lines(l, on_lines(bytes));
  Doorbell::notify(segment_.block(to.peer));
}

inline void Endpoint::receive_lines(const End& from, const End& to, Bytes bytes) {
  Link& l = link(from.peer, from.strand);
  Lines64::unpack(l.from_lines(Protocol::kLL64), 0, static_cast<std::size_t>(bytes), place(to));
  const std::size_t length = on_lines(bytes);
  release_lines(l, from.peer, length);
  prefetch(l.from_lines(Protocol::kLL64), length);
}

// In place it is there already.
inline void Endpoint::copy_between_places(const End& from, const End& to, Bytes bytes) {
  const std::byte* const value = place(from);
  std::byte* const destination = place(to);
  if (value == destination || bytes == 0) return;
  if (streams(to, bytes))
    streamed_copy(destination, value, static_cast<std::size_t>(bytes));
  else
    call_.fold(&destination, 1, &value, 1, bytes, nullptr);
}

// Copies from one place to another, or as a message.
void Endpoint::copy(const Operation& operation) {
  const End &from = operation.sources[0], &to = operation.destinations[0];
  const Bytes bytes = operation.bytes;
  const bool received = from.kind == End::Kind::kMessage, sent = to.kind == End::Kind::kMessage;
  if (!received && !sent) return copy_between_places(from, to, bytes);
  const End& crossing = sent ? to : from;
  if (received != sent && protocol_of(bytes) == Protocol::kLL64 && crossing.offset == 0 && crossing.last)
    return sent ? send_lines(place(from), to, bytes) : receive_lines(from, to, bytes);
  Link* const in = received ? &link(from.peer, from.strand) : nullptr;
  Link* const out = sent ? &link(to.peer, to.strand) : nullptr;
  const bool packed = packs(to, bytes);
  const std::byte* value = received ? whole(*in, from, bytes) : place(from);
  std::byte* destination = packed ? nullptr : sent ? slot(*out, to, bytes) : place(to);
  if (value == nullptr && !sent && !packed) {
    unpack(*in, from, bytes, destination);  // straight out of the lines
  } else {
    if (value == nullptr) value = take(*in, from, bytes);
    if (destination != nullptr && bytes > 0) call_.fold(&destination, 1, &value, 1, bytes, nullptr);
  }
  if (sent)
    send(*out, to, bytes, packed ? value : nullptr);
  else if (packed)
    streamed_copy(place(to), value, static_cast<std::size_t>(bytes));
  if (received && from.last) {
    release(*in, from, bytes);
    prefetch_next(*in, bytes);
  }
}

inline bool Endpoint::spreads(const Operation& operation) const {
  if (operation.sources.size() != 1 || operation.sources[0].kind == End::Kind::kMessage || call_.scale ||
      protocol_of(operation.bytes) != Protocol::kLL64)
    return false;
  return std::all_of(operation.destinations.begin(), operation.destinations.end(),
                     [](const End& to) { return to.kind != End::Kind::kMessage || (to.offset == 0 && to.last); });
}

// Peers first, who wait for it.
inline void Endpoint::spread(const Operation& operation) {
  const std::byte* const value = place(operation.sources[0]);
  for (const End& to : operation.destinations)
    if (to.kind == End::Kind::kMessage) send_lines(value, to, operation.bytes);
  for (const End& to : operation.destinations) {
    if (to.kind == End::Kind::kMessage) continue;
    if (std::byte* const destination = place(to); destination != value)
      std::memcpy(destination, value, static_cast<std::size_t>(operation.bytes));
  }
}

void Endpoint::move(const Operation& operation) {
  if (spreads(operation)) return spread(operation);
  sources_.clear();
  destinations_.clear();
  for (const End& end : operation.sources) {
    sources_.push_back(end.kind == End::Kind::kMessage ? take(link(end.peer, end.strand), end, operation.bytes)
                                                       : place(end));
  }
  bool scaled = false;
  if (call_.scale) [[unlikely]] {
    scales_.clear();
    for (const End& end : operation.sources) {
      scales_.push_back(scale_of(end));
      scaled |= fabric::scales(end);
    }
  }
  const std::byte* value = nullptr;  // where the whole value is, if anywhere
  bool any_packs = false;
  for (const End& end : operation.destinations) {
    if (packs(end, operation.bytes)) {
      any_packs = true;
      continue;
    }
    destinations_.push_back(end.kind == End::Kind::kMessage ? slot(link(end.peer, end.strand), end, operation.bytes)
                                                            : place(end));
    if (end.kind == End::Kind::kLocal) value = destinations_.back();
  }
  if (sources_.size() == 1 && !scaled) value = sources_[0];
  if (any_packs && value == nullptr) {
    value_.resize(std::max(value_.size(), static_cast<std::size_t>(operation.bytes)));
    value = value_.data();
    destinations_.push_back(value_.data());
  }
  if (!destinations_.empty() && operation.bytes > 0)
    call_.fold(destinations_.data(), static_cast<int>(destinations_.size()), sources_.data(),
               static_cast<int>(sources_.size()), operation.bytes, scaled ? scales_.data() : nullptr);
  for (const End& end : operation.destinations) {
    const bool packed = packs(end, operation.bytes);
    if (end.kind == End::Kind::kMessage)
      send(link(end.peer, end.strand), end, operation.bytes, packed ? value : nullptr);
    else if (packed)
      streamed_copy(place(end), value, static_cast<std::size_t>(operation.bytes));
  }
  for (const End& end : operation.sources)
    if (end.kind == End::Kind::kMessage && end.last) release(link(end.peer, end.strand), end, operation.bytes);
}

Rank Endpoint::blocker(int strand, const Operation& operation) {
  if (operation.kind == Operation::Kind::kWait) return operation.peer;
  for (const End& end : operation.sources)
    if (end.kind == End::Kind::kMessage && !arrived(link(end.peer, end.strand), end, operation.bytes)) return end.peer;
  for (const End& end : operation.destinations)
    if (end.kind == End::Kind::kMessage && end.offset == 0 &&
        !has_room(link(end.peer, end.strand), end, operation.bytes))
      return end.peer;
  (void)strand;
  return -1;
}

}  // namespace weft::net::memory
