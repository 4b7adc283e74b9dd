#pragma once

#include <string>

#include "base/small_list.h"
#include "base/units.h"

namespace weft::schedule {

// Chunks are numbered in the whole message. An all_to_all has one for every pair of ranks: 32 bits are too few.
using ChunkId = std::int64_t;

// The memories a schedule may name. Which chunks of an input or output exist is the collective's business
// (collective.h); scratch has as many slots as the algorithm says, each as large as a chunk.
enum class Buffer : std::uint8_t {
  kIn,       // the caller's input; a schedule never writes it
  kOut,      // the caller's output; may be the same memory as the input
  kScratch,  // weft's own, reachable by every peer that can load and store
};

// Some ranks with equal distances: `count` of them, the first and then every `stride`-th.
struct Group {
  Rank first = -1, count = 0, stride = 1;

  Rank member(Rank i) const { return first + i * stride; }
  bool contains(Rank r) const { return r >= first && (r - first) % stride == 0 && (r - first) / stride < count; }
  bool operator==(const Group&) const = default;
};

// One end of a move. A chunk is numbered in the whole message, also where a buffer holds only one of them.
struct Operand {
  enum class Kind : std::uint8_t {
    kLocal,        // this rank's buffer
    kMessage,      // a two-sided message: from `peer` as a source, to `peer` as a destination; first in, first out
    kRemote,       // `peer`'s buffer, by load or store
    kMulticast,    // the same buffer of every rank of the group, through a switch: as a source it reduces on the way,
                   // as a destination it copies
    kAggregation,  // a message through a switch that waits for one of every rank of the group: each sends its part (a
                   // destination), each receives the sum (a source)
  };
  Kind kind = Kind::kLocal;
  Buffer buffer = Buffer::kIn;
  std::int8_t lane = kSameLane;  // messages: whose connection; each end of a connection belongs to one strand
  bool open = false;             // messages: more of the same message follows
  Rank peer = -1;                // of a group: the first
  ChunkId chunk = -1;            // of scratch: the slot
  Rank count = 0, stride = 0;    // of a group

  static constexpr std::int8_t kSameLane = -1;
  bool message() const { return kind == Kind::kMessage; }
  bool memory() const { return kind == Kind::kLocal || kind == Kind::kRemote || kind == Kind::kMulticast; }
  Group group() const { return {peer, count, stride}; }
  // The same message goes on with the next such operand of this connection if `more`; both ends must say so.
  Operand continued(bool more) const {
    Operand o = *this;
    o.open = more;
    return o;
  }
  bool operator==(const Operand&) const = default;
};

using Operands = SmallList<Operand, 2>;

// What one rank does next in one lane.
//   move    value = source 0 ⊕ source 1 ⊕ … (in that order); every destination receives the value.
//           Send, receive, receive-reduce-send, copy, put and get are all moves; what is not stored is never in memory.
//           A copy of a chunk onto itself, as from input to output in place, writes nothing.
//   signal  notifies `peer` that everything this lane did before is done and visible.
//   wait    for one signal of `peer`'s same lane.
// With a lane, signal and wait are between two lanes of this rank; `peer` is the rank itself.
struct Step {
  enum class Kind : std::uint8_t { kMove, kSignal, kWait };
  Kind kind = Kind::kMove;
  Rank peer = -1;      // signal, wait
  ChunkId chunk = -1;  // move: whose size it has
  Operands sources, destinations;
  std::int8_t lane = Operand::kSameLane;  // signal, wait: the other lane, of the same rank

  bool operator==(const Step&) const = default;
};

// The words algorithms are written in.
inline Operand in(ChunkId chunk) { return {.buffer = Buffer::kIn, .chunk = chunk}; }
inline Operand out(ChunkId chunk) { return {.buffer = Buffer::kOut, .chunk = chunk}; }
inline Operand scratch(ChunkId slot) { return {.buffer = Buffer::kScratch, .chunk = slot}; }
inline Operand from(Rank peer, int lane = Operand::kSameLane) {
  return {.kind = Operand::Kind::kMessage, .lane = static_cast<std::int8_t>(lane), .peer = peer};
}
inline Operand to(Rank peer, int lane = Operand::kSameLane) { return from(peer, lane); }
inline Operand at(Rank peer, Operand local) {
  local.kind = Operand::Kind::kRemote;
  local.peer = peer;
  return local;
}
inline Operand everywhere(const Group& group, Operand local) {
  local.kind = Operand::Kind::kMulticast;
  local.peer = group.first, local.count = group.count, local.stride = group.stride;
  return local;
}
inline Operand sum_of(const Group& group, int lane = Operand::kSameLane) {
  return {.kind = Operand::Kind::kAggregation,
          .lane = static_cast<std::int8_t>(lane),
          .peer = group.first,
          .count = group.count,
          .stride = group.stride};
}
inline Operand into(const Group& group, int lane = Operand::kSameLane) { return sum_of(group, lane); }

// Requires: at least one source and one destination; `chunk` is the chunk that is moved.
inline Step move(ChunkId chunk, Operands sources, Operands destinations) {
  return {Step::Kind::kMove, -1, chunk, std::move(sources), std::move(destinations), Operand::kSameLane};
}
inline Step signal(Rank peer, int lane = Operand::kSameLane) {
  return {Step::Kind::kSignal, peer, -1, {}, {}, static_cast<std::int8_t>(lane)};
}
inline Step wait(Rank peer, int lane = Operand::kSameLane) {
  return {Step::Kind::kWait, peer, -1, {}, {}, static_cast<std::int8_t>(lane)};
}

// "move chunk 3: message from 1 + in[3] -> out[3], message to 2"
std::string to_string(const Step& step);

}  // namespace weft::schedule
