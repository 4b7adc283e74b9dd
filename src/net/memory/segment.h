#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/units.h"
#include "exec/fabric/votes.h"
#include "plan/protocol/slots.h"

// The shared-memory format: what ranks on one node see of each other. One segment holds, for n ranks,
//
//   Header | RankBlock x n | ballots | Connection x n x n x strands | scratch x n | heap x n | room x n
//
// A fresh segment is all zero, which is a valid initial state of every field but the header's. Both ends compute the
// same offsets from (ranks, heap_bytes, room_bytes). All integers are native: a segment never leaves the machine.
// Room is for segments of groups of these ranks, which have neither heap nor room of their own.
namespace weft::net::memory {

inline constexpr std::uint64_t kMagic = 0x31747366'65770013;  // changes with the format
inline constexpr std::size_t kLine = 64;                      // a cache line
using protocol::kSlots;
inline constexpr int kStrands = 8;            // connections of calls between an ordered pair of ranks …
inline constexpr int kLaneStrand = kStrands;  // … and the one beside them, see fabric::Lane
inline constexpr int kConnections = kStrands + 1;
inline constexpr std::size_t kLineSlotBytes = 4 << 10;  // line protocols; a page each
inline constexpr std::size_t kSlotBytes = 32 << 10;     // Simple: half of an L1
// The ring of Simple, at most and at least: powers of two, Header::ring_bytes. The best is twice an L2: what a receiver
// loads has then left the sender's own cache for the one that both share, from which it comes twice as fast (decision
// 0265).
inline constexpr std::size_t kRingBytes = 2 << 20, kSmallRingBytes = kSlots * kSlotBytes;
// Messages under way where they lie in a ring. In lines: ranks that share cores get as many done in a turn, and 64 were
// too few (bench/results/2026-11-23-small-broadcasts.md). Of Simple: seven lines of flags.
inline constexpr std::size_t kLinesUnderWay = 256, kUnderWay = 56;
inline constexpr std::size_t kScratchBytes = 1 << 20;
// The distance between two ranks' heaps beyond their size. AMD's level-1 way predictor aliases addresses that are
// equal in bits 12 to 27: of heaps that are a multiple of 256 MiB apart, equal places evict each other from the cache,
// and sums of cached chunks take three times as long (bench/results/2026-11-23-colours.md).
inline constexpr std::size_t kHeapStagger = 4096;

struct alignas(kLine) Counter {
  std::atomic<std::uint64_t> value;
};

// Messages published: of each its flag (lines.h), of the latest also where receivers look that are not behind. Simple:
// the latest's is stored last. LL, whose words' own flags have no room for a tag: only the message's, before its words.
struct alignas(kLine) Tail {
  alignas(kLine) std::atomic<std::uint64_t> latest;
  std::atomic<std::uint64_t> timed_from;  // of TimedLoads::kMost messages, see StoreChoice; stored before `latest`
  alignas(kLine) std::atomic<std::uint64_t> flags[kUnderWay];

  std::atomic<std::uint64_t>& of(std::uint64_t number) { return flags[number % kUnderWay]; }
};
static_assert(sizeof(Tail) == 8 * kLine);

// A receiver notes here what its loads of messages took that the sender wants timed: the number's low half, then
// picoseconds per byte.
struct alignas(kLine) TimedLoads {
  static constexpr std::size_t kMost = 8;
  std::atomic<std::uint64_t> of[kMost];
};
static_assert(sizeof(TimedLoads) == kLine);

// Signals sent, by number: of each its flag. Signals are not taken back: one whose place a later one has taken shows
// that one's flag.
struct alignas(kLine) Signals {
  static constexpr std::size_t kKept = 8;
  std::atomic<std::uint64_t> flags[kKept];

  std::atomic<std::uint64_t>& of(std::uint64_t number) { return flags[number % kKept]; }
};
static_assert(sizeof(Signals) == kLine);

// From one rank to another, one strand. Only the sender writes tail, signal, slots and rings; only the receiver head
// and loads.
struct Connection {
  Tail tail;        // Simple, LL; slot contents are ordered by the latest flag's release store
  Counter head;     // messages taken, or a few less; the place of message m is free again when head >= m
  Signals signals;  // sent
  TimedLoads loads;
  // Line protocols have slots of their own: one's data must not look like another's flags.
  alignas(kLine) std::byte ll[kSlots][kLineSlotBytes];
  alignas(kLine) std::byte ll128[kSlots][kLineSlotBytes];
  alignas(kLine) std::byte ll64[kSlots * kLineSlotBytes];  // a ring, in lines
  std::byte simple[kRingBytes];                            // a ring, or its beginning: Header::ring_bytes
};

// The description that a rank publishes of every call. Peers that touch its memory read it after a wait, which orders
// it; ranks that wait in vain compare it with their own call at any time: `call` is stored last, and 0 while the rest
// changes. A rank is never two load/store calls ahead of a peer, so kBoards = 2 would do for them; 4 leaves a margin.
struct alignas(kLine) Board {
  std::atomic<std::uint64_t> call;       // number of the call on this communicator, from 1
  std::atomic<std::uint64_t> signature;  // of this call and all before: differs if the ranks called different things
  std::atomic<std::int64_t> in, out;     // offsets from the segment's start, if peers will touch them
  std::atomic<double> scale_real;        // what the input is multiplied by, if peers will read it and the call scales
  std::atomic<std::int64_t> scale_integer;
  std::atomic<std::uint64_t> count, fields;  // fabric::Description
};
static_assert(sizeof(Board) == kLine);
inline constexpr int kBoards = 4;
inline constexpr int kWithdrawn = 8;
inline constexpr int kSignatures = 64;  // of the latest calls: how far back the first call that differs is found

// Consensus through the segment, see survivors.h. Rounds count from 1: a compare-and-swap decides each, once.
enum Register : int { kSurvivors = 0, kAgreement = 1 };
inline constexpr int kRegisters = 2;

enum class RankState : std::uint32_t { kAbsent = 0, kPresent, kLeft };

struct RankBlock {
  alignas(kLine) std::atomic<std::uint32_t> doorbell;  // futex; changes when the rank should look again
  std::atomic<std::uint32_t> sleeping;                 // 1: ring the doorbell after publishing
  alignas(kLine) std::atomic<RankState> state;
  std::atomic<std::int32_t> pid;
  std::atomic<std::uint64_t> processes;  // the PID namespace in which `pid` counts: its inode; stored before `state`
  std::atomic<std::int32_t> awaited;     // while the rank waits: 1 + whom for
  std::atomic<std::int64_t> waiting_at;  // when it last said so, by the steady clock: old if the rank is stopped
  std::atomic<std::int32_t> core;        // 1 + the core on which it lately waited
  std::atomic<std::uint64_t> asked[kRegisters];   // the last round of each consensus that it takes part in …
  std::atomic<std::uint64_t> brings[kRegisters];  // … and what it brings to that
  Board boards[kBoards];
  char words[192];  // what a rank that has aborted says of itself; ends with a zero; stored before Header::broken
  std::atomic<std::uint64_t> signatures[kSignatures];  // of calls, by their number; stored before `call` of a board

  // The latest offers to make a group that the rank has taken back, as its split failed: an offer's number, << 32 |
  // fabric::Cause and 1 + the rank at fault as in Header::broken. Of a process's first segment only.
  std::atomic<std::uint64_t> withdrawn[kWithdrawn];

  // The latest call that the rank has begun; 0: none.
  std::uint64_t latest_call() const {
    std::uint64_t latest = 0;
    for (const Board& board : boards) latest = std::max(latest, board.call.load(std::memory_order_acquire));
    return latest;
  }
};

inline constexpr int kCauseShift = 28;  // in Header::broken

// A plan that a rank has chosen for some kind of call (choices.h). Written once.
struct alignas(kLine) Choice {
  enum State : std::uint32_t { kEmpty = 0, kWritten = 1, kThere = 2 };
  std::atomic<std::uint32_t> state;
  std::int32_t channels;
  std::uint64_t key;
  std::int64_t slice_bytes;
  std::uint8_t protocol;
  char algorithm[31];  // ends with a zero
};
static_assert(sizeof(Choice) == kLine);
inline constexpr int kChoices = 64;
inline constexpr int kVotes = 64;

struct Header {
  std::uint64_t magic;
  std::int32_t ranks;
  std::int64_t heap_bytes, room_bytes;
  std::uint64_t ring_bytes;                         // of Simple's messages, here and in the groups in the room
  alignas(kLine) std::atomic<std::uint32_t> ready;  // 1: rank 0 has filled the header
  // Ranks that have mapped it, in the low 32 bits. Above them, once a rank has given up before all had: 1 + the rank
  // that is not coming. Whichever is first holds for all ranks: the segment is complete, or it never will be.
  std::atomic<std::uint64_t> attached;
  // Why the communicator is broken: 0 while it is not; otherwise 1 + the rank at fault, above it fabric::Cause, and in
  // the high half 1 + the rank that found it.
  alignas(kLine) std::atomic<std::uint64_t> broken;
  // The last round that is decided, << 32 | 1 + the rank whose proposal it is.
  std::atomic<std::uint64_t> decided[kRegisters];
  Choice choices[kChoices];
  fabric::Votes votes[kVotes];  // of calls, by a hash of their shape
};

// Where things are in a segment mapped at `base`. A value; owns nothing.
class Segment {
 public:
  Segment() = default;
  Segment(std::byte* base, Rank ranks, std::int64_t heap_bytes, std::int64_t room_bytes = 0)
      : base_(base), ranks_(ranks), heap_bytes_(heap_bytes), room_bytes_(room_bytes) {}

  static std::size_t total_bytes(Rank ranks, std::int64_t heap_bytes, std::int64_t room_bytes = 0) {
    return Segment(nullptr, ranks, heap_bytes, room_bytes).room_offset(ranks);
  }

  Rank ranks() const { return ranks_; }
  std::byte* base() const { return base_; }
  std::int64_t heap_bytes() const { return heap_bytes_; }
  std::int64_t room_bytes() const { return room_bytes_; }
  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  RankBlock& block(Rank r) const {
    return *reinterpret_cast<RankBlock*>(base_ + sizeof(Header) + size(r) * sizeof(RankBlock));
  }
  // A rank's proposal in a round, in words: two of its own, then a bit for every member, and one for every rank that
  // has ended. Rounds alternate between two places: a reader of one that changes meanwhile finds that `decided` has
  // changed.
  static std::size_t words_of(Rank ranks) { return (size(ranks) + 63) / 64; }
  std::span<std::atomic<std::uint64_t>> proposal(Rank r, int which, std::uint64_t round) const {
    const std::size_t words = 2 + 2 * words_of(ranks_);
    const std::size_t at = (size(r) * kRegisters + size(which)) * 2 + round % 2;
    return {reinterpret_cast<std::atomic<std::uint64_t>*>(base_ + ballots_offset()) + at * words, words};
  }
  Connection& connection(Rank source, Rank destination, int strand) const {
    return *reinterpret_cast<Connection*>(base_ + connections_offset() +
                                          (size(source) * size(ranks_) + size(destination)) * kConnections *
                                              sizeof(Connection) +
                                          size(strand) * sizeof(Connection));
  }
  std::byte* scratch(Rank r) const { return base_ + scratch_offset() + size(r) * kScratchBytes; }
  std::byte* heap(Rank r) const { return base_ + heap_offset(r); }
  std::byte* room(Rank r) const { return base_ + room_offset(r); }

 private:
  static std::size_t size(std::int64_t v) { return static_cast<std::size_t>(v); }
  static std::size_t page_up(std::size_t v) { return (v + 4095) & ~std::size_t{4095}; }
  std::size_t ballots_offset() const { return sizeof(Header) + size(ranks_) * sizeof(RankBlock); }
  std::size_t connections_offset() const {
    const std::size_t ballot = 2 * (2 + 2 * words_of(ranks_)) * sizeof(std::uint64_t);
    return page_up(ballots_offset() + size(ranks_) * kRegisters * ballot);
  }
  std::size_t scratch_offset() const {
    return page_up(connections_offset() + size(ranks_) * size(ranks_) * kConnections * sizeof(Connection));
  }
  std::size_t heap_offset(Rank r) const {
    return scratch_offset() + size(ranks_) * kScratchBytes + size(r) * (page_up(size(heap_bytes_)) + kHeapStagger);
  }
  std::size_t room_offset(Rank r) const { return heap_offset(ranks_) + size(r) * page_up(size(room_bytes_)); }

  std::byte* base_ = nullptr;
  Rank ranks_ = 0;
  std::int64_t heap_bytes_ = 0;
  std::int64_t room_bytes_ = 0;
};

static_assert(sizeof(Header) % kLine == 0 && sizeof(RankBlock) % kLine == 0 && sizeof(Connection) % kLine == 0);

}  // namespace weft::net::memory
