#pragma once

#include <string>

#include "base/small_list.h"
#include "base/units.h"

namespace weft::schedule {

// The memories a schedule may name. Which chunks of a buffer exist is the collective's business (collective.h).
enum class Buffer : std::uint8_t {
  kIn,       // the caller's input; a schedule never writes it
  kOut,      // the caller's output; may be the same memory as the input
  kScratch,  // weft's own, reachable by every peer that can load and store
};

// One end of a move. A chunk is numbered in the whole message, also where a buffer holds only one of them.
struct Operand {
  enum class Kind : std::uint8_t {
    kLocal,    // this rank's buffer
    kMessage,  // a two-sided message: from `peer` as a source, to `peer` as a destination; first in, first out
    kRemote,   // `peer`'s buffer, by load or store
  };
  Kind kind = Kind::kLocal;
  Buffer buffer = Buffer::kIn;
  std::int8_t lane = kSameLane;  // messages: whose connection; each end of a connection belongs to one strand
  Rank peer = -1;
  std::int32_t chunk = -1;

  static constexpr std::int8_t kSameLane = -1;
  bool operator==(const Operand&) const = default;
};

using Operands = SmallList<Operand, 2>;

// What one rank does next in one lane.
//   move    value = source 0 ⊕ source 1 ⊕ … (in that order); every destination receives the value.
//           Send, receive, receive-reduce-send, copy, put and get are all moves; what is not stored is never in memory.
//   signal  tells `peer` that everything this lane did before is done and visible.
//   wait    for one signal of `peer`'s same lane.
struct Step {
  enum class Kind : std::uint8_t { kMove, kSignal, kWait };
  Kind kind = Kind::kMove;
  Rank peer = -1;           // signal, wait
  std::int32_t chunk = -1;  // move: whose size it has
  Operands sources, destinations;

  bool operator==(const Step&) const = default;
};

// The words algorithms are written in.
inline Operand in(int chunk) { return {.buffer = Buffer::kIn, .chunk = chunk}; }
inline Operand out(int chunk) { return {.buffer = Buffer::kOut, .chunk = chunk}; }
inline Operand scratch(int chunk) { return {.buffer = Buffer::kScratch, .chunk = chunk}; }
inline Operand from(Rank peer, int lane = Operand::kSameLane) {
  return {.kind = Operand::Kind::kMessage, .lane = static_cast<std::int8_t>(lane), .peer = peer};
}
inline Operand to(Rank peer, int lane = Operand::kSameLane) { return from(peer, lane); }
inline Operand at(Rank peer, Operand local) {
  return {.kind = Operand::Kind::kRemote, .buffer = local.buffer, .peer = peer, .chunk = local.chunk};
}

// Requires: at least one source and one destination; `chunk` is the chunk that is moved.
inline Step move(int chunk, Operands sources, Operands destinations) {
  return {Step::Kind::kMove, -1, chunk, std::move(sources), std::move(destinations)};
}
inline Step signal(Rank peer) { return {Step::Kind::kSignal, peer, -1, {}, {}}; }
inline Step wait(Rank peer) { return {Step::Kind::kWait, peer, -1, {}, {}}; }

// "move chunk 3: message from 1 + in[3] -> out[3], message to 2"
std::string to_string(const Step& step);

}  // namespace weft::schedule
