#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "onesided/pgas/group.h"
#include "weft/pgas_types.h"

namespace weft::pgas {

// A place in symmetric memory, the same on all ranks: which region of a Space, and the offset in it.
struct Place {
  std::int32_t region = 0;
  Bytes offset = 0;
  auto operator<=>(const Place&) const = default;
};

// One operation of a rank of a PGAS program, as a value: recorded from a real run, or written down. What a program does
// is a list of these per rank; memory carries them out in real time, replay/ in virtual time.
struct Event {
  enum class Kind : std::uint8_t {
    kPut,        // bytes to place at peer
    kPutSignal,  // bytes to peer, then the word at place
    kGet,        // bytes from place at peer
    kAtomic,     // on bytes at place at peer; changes it and gives nothing back
    kFetch,      // the same, with the old value given back, or only looked at
    kWait,       // until the own word at place compares with value
    kFence,
    kQuiet,
    kMeet,   // a collective of a group, with bytes as the size of its message
    kLoad,   // bytes from place at peer, by instructions through a pointer
    kStore,  // the same to it
  };
  Kind kind = Kind::kPut;
  Rank peer = -1;
  Place place;
  Bytes bytes = 0;
  // What the word at place holds afterwards (put of 4 or 8 bytes, atomic, signal), or is compared with (wait).
  bool valued = false;
  std::uint64_t value = 0;
  Compare compare = Compare::kEqual;  // wait
  Group group;                        // meet
  std::string collective;             // meet: its name, e.g. "barrier"
  Duration begin, end;                // since any moment that is the same for all ranks

  bool operator==(const Event&) const = default;
};

// A program: every rank's events in its order.
using Program = std::vector<std::vector<Event>>;

// The file of one rank is text: "weft.pgas_trace/1 rank R of N", then a line per event:
//   BEGIN END put|put_signal|get|atomic|fetch|load|store PEER REGION:OFFSET BYTES [= VALUE]
//   BEGIN END wait REGION:OFFSET BYTES ==|!=|>|>=|<|<= VALUE
//   BEGIN END fence|quiet
//   BEGIN END meet COLLECTIVE BYTES START STRIDE SIZE
// Times in nanoseconds; values are hexadecimal.
std::string heading(Rank rank, Rank ranks);
std::string to_line(const Event& event);

struct RankTrace {
  Rank rank = 0, ranks = 1;
  std::vector<Event> events;
};
// Errors (bad input): names file and line.
Result<RankTrace> parse_trace(std::string_view file, std::string_view text);

}  // namespace weft::pgas
