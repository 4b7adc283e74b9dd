#pragma once

#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace weft::protocol {

// How a message crosses from one rank to the next.
enum class Protocol : std::uint8_t {
  kSimple,  // data, then a separate flag ordered by a fence
  kLL,      // "low latency": 8-byte stores, 4 data + 4 flag
  kLL64,    // the CPU's form: one 64-byte cache line, 56 data + 8 flag
  kLL128,   // 128-byte lines, 120 data + 8 flag
  kDirect,  // no message: loads and stores on the peers' memory, ordered by signals
};

inline constexpr Protocol kProtocols[] = {Protocol::kSimple, Protocol::kLL, Protocol::kLL64, Protocol::kLL128,
                                          Protocol::kDirect};

// The one home of what a protocol does to a message.
// Source: NCCL 2.30 src/include/device.h (LL, LL128, 8 steps of a 4 MiB buffer); LL64 is weft's own.
struct Traits {
  std::string_view name;
  Bytes line_data;    // data bytes per line on the wire …
  Bytes line_bytes;   // … of this size; equal where there are no inline flags
  Bytes slice_bytes;  // the most data one slot carries
  int slots;          // slots per connection
};
const Traits& traits(Protocol protocol);

// Bytes on the wire for `data` bytes: whole lines.
Bytes wire_bytes(Protocol protocol, Bytes data);

Result<Protocol> parse_protocol(std::string_view name);

}  // namespace weft::protocol
