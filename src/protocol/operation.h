#pragma once

#include "base/small_list.h"
#include "base/units.h"
#include "protocol/protocol.h"

namespace weft::protocol {

// What crosses the seam between the interpreter and a fabric: schedule steps, cut to slices and addressed in bytes.
// (schedule/lower makes them, exec/ orders them, fabrics carry them out.)

enum class Memory : std::uint8_t { kIn, kOut, kScratch };

struct End {
  enum class Kind : std::uint8_t { kLocal, kMessage, kRemote };
  Kind kind = Kind::kLocal;
  Memory memory = Memory::kIn;
  std::int16_t strand = 0;  // messages: which of the connections between the two ranks
  Rank peer = -1;
  Bytes offset = 0;  // in the rank's or peer's memory; 0 for messages

  bool operator==(const End&) const = default;
};

struct Operation {
  enum class Kind : std::uint8_t { kMove, kSignal, kWait };
  Kind kind = Kind::kMove;
  Rank peer = -1;   // signal, wait
  Bytes bytes = 0;  // move
  SmallList<End, 2> sources, destinations;

  bool operator==(const Operation&) const = default;
};

}  // namespace weft::protocol
