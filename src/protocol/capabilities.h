#pragma once

#include <string_view>

#include "base/units.h"
#include "protocol/protocol.h"

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

  // The most data that one message carries.
  Bytes slot_data(Protocol protocol) const {
    const Traits& t = traits(protocol);
    const Bytes here = protocol == Protocol::kSimple ? max_slice : line_slot_bytes / t.line_bytes * t.line_data;
    return here < t.slice_bytes ? here : t.slice_bytes;
  }
};

}  // namespace weft::protocol
