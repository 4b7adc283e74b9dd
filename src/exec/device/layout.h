#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/protocol/slots.h"

// The memory that ranks on GPUs see of each other: one region of device memory per rank, all of one layout.
//
//   Header x strands | Incoming x n x strands | Outgoing x n x strands | scratch | slots | LL lines | LL128 lines
//
// A region that is all zero is in a valid initial state. A pair's data and counters lie with the rank that polls them:
// what a sender writes with the receiver, what a receiver writes with the sender, so that waiting loads cross no link.
// All integers are native; offsets only, so that each process may map regions where it likes.
namespace weft::exec::device {

inline constexpr std::size_t kLine = 128;  // what an L2 slice and an NVLink packet hold; counters do not share one
inline constexpr int kBoards = 4;          // a rank is never two load/store calls ahead of a peer; a margin

// The description that a strand publishes of its current call, for peers that load and store its memory.
// `call` is stored last (release), and 0 while the rest changes.
struct Board {
  std::uint64_t call;
  std::uint64_t signature;             // differs if the ranks called different things
  std::uint64_t in, out;               // addresses, or …
  std::int32_t in_window, out_window;  // … unless -1, where in this window of the rank's: see Frame::windows
  double scale_real;                   // what the input is multiplied by, if the call scales
  std::int64_t scale_integer;
};

enum class Trouble : std::uint32_t { kNone, kAborted, kTimeout, kMismatch };

// The header of a rank's strand. Peers and a rank that aborts write `stop`; the strand itself all else.
struct alignas(kLine) Header {
  std::uint64_t calls;  // that have ended here, of those that published a board: all ranks count the same
  std::uint32_t stop;   // not 0: give up; checked while waiting
  Trouble trouble;      // why the strand gave up, …
  std::int32_t peer;    // … for whom it waited then (-1: unknown), …
  std::int32_t spare;
  std::int64_t step;  // … and at which operation
  Board boards[kBoards];
};

// From a source to this rank, one strand. Only the source writes.
struct alignas(kLine) Incoming {
  std::uint64_t tail;                    // Simple: messages published
  std::uint16_t tags[protocol::kSlots];  // Simple and LL: of the calls of those in the slots, written before
  alignas(kLine) std::uint64_t signal;   // signals sent
};

// The state of one strand from this rank to a destination.
struct alignas(kLine) Outgoing {
  std::uint64_t head;  // messages that the destination has taken; only it writes
  // Cursors of this rank's own end, both directions; kept between calls, and where a graph replays them.
  alignas(kLine) std::uint64_t sent, taken_by_peer, received, signals_sent, signals_taken;
};

// From one strand of a rank to another: how many signals were sent, and how many of them were taken.
struct OwnSignal {
  std::uint64_t sent, taken;
};

// The sizes that place everything. Equal on all ranks.
struct Geometry {
  std::int32_t ranks = 1;
  std::int32_t strands = 8;                 // blocks of a rank, and connections of a pair
  std::int64_t slot_bytes = 64 << 10;       // Simple
  std::int64_t line_slot_bytes = 16 << 10;  // LL and LL128, on the wire; whole lines of 128 bytes
  std::int64_t scratch_bytes = 1 << 20;

  constexpr std::int64_t pairs() const { return std::int64_t{ranks} * strands; }
  constexpr std::int64_t pair(std::int32_t peer, std::int32_t strand) const {
    return std::int64_t{peer} * strands + strand;
  }
  constexpr std::int64_t header(std::int32_t strand) const { return strand * std::int64_t{sizeof(Header)}; }
  constexpr std::int64_t incoming(std::int32_t source, std::int32_t strand) const {
    return header(strands) + pair(source, strand) * std::int64_t{sizeof(Incoming)};
  }
  constexpr std::int64_t outgoing(std::int32_t destination, std::int32_t strand) const {
    return incoming(ranks, 0) + pair(destination, strand) * std::int64_t{sizeof(Outgoing)};
  }
  // Signals between strands: by the one that waits, then the one that sends.
  constexpr std::int64_t own(std::int32_t to, std::int32_t from) const {
    return outgoing(ranks, 0) + (std::int64_t{to} * strands + from) * std::int64_t{sizeof(OwnSignal)};
  }
  constexpr std::int64_t scratch() const {
    const auto end = own(strands, 0);
    return (end + 4095) / 4096 * 4096;
  }
  constexpr std::int64_t slots(std::int32_t source, std::int32_t strand) const {
    return scratch() + scratch_bytes + pair(source, strand) * protocol::kSlots * slot_bytes;
  }
  constexpr std::int64_t ll(std::int32_t source, std::int32_t strand) const {
    return slots(ranks, 0) + pair(source, strand) * protocol::kSlots * line_slot_bytes;
  }
  constexpr std::int64_t ll128(std::int32_t source, std::int32_t strand) const {
    return ll(ranks, 0) + pair(source, strand) * protocol::kSlots * line_slot_bytes;
  }
  constexpr std::int64_t total_bytes() const { return ll128(ranks, 0); }

  constexpr bool operator==(const Geometry&) const = default;
};

}  // namespace weft::exec::device
