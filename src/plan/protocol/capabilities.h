#pragma once

#include <string_view>

#include "base/units.h"
#include "plan/protocol/protocol.h"
#include "plan/protocol/slots.h"

namespace weft::protocol {

// What a fabric can do, as data; conformance tests and the choice of algorithms go by it.
struct Capabilities {
  std::string_view name = {};
  bool load_store = false;                 // remote operands
  bool multicast = false;                  // switches that reduce and multicast memory
  bool aggregation = false;                // switches that reduce messages
  bool moves_data = true;                  // false: only time passes
  bool virtual_time = false;               // completions come from an event queue, not from the world
  int max_strands = 1;                     // connections between two ranks
  Bytes max_slice = 0;                     // the most data one Simple message carries
  Bytes line_slot_bytes = Bytes{1} << 40;  // the most wire bytes of a line protocol's message
  Bytes scratch_bytes = 0;                 // of every rank
  // Messages that a sender may have under way to one rank, if they are small: by LL64, by Simple.
  std::int64_t lines_under_way = kSlots, simple_under_way = kSlots;
  Bytes small_under_way = 0;  // … the bytes that they have together; 0: as many as kSlots of the largest have

  // The most data that one message carries.
  Bytes slot_data(Protocol protocol) const {
    const Traits& t = traits(protocol);
    const Bytes here = protocol == Protocol::kSimple ? max_slice : line_slot_bytes / t.line_bytes * t.line_data;
    return here < t.slice_bytes ? here : t.slice_bytes;
  }

  // Messages of `data` bytes that a sender may have under way to one rank: kSlots of any size, more small ones.
  std::int64_t under_way(Protocol protocol, Bytes data) const {
    const Bytes most = slot_data(protocol);
    const Bytes room = small_under_way > 0 ? small_under_way : kSlots * most;
    const std::int64_t fit = data > 0 && data < most && room / data > kSlots ? room / data : kSlots;
    if (protocol == Protocol::kLL64) return fit < lines_under_way ? fit : lines_under_way;
    if (protocol == Protocol::kSimple) return fit < simple_under_way ? fit : simple_under_way;
    return kSlots;
  }
};

}  // namespace weft::protocol
