#pragma once

#include "net/messages/frame.h"

// A connection between two ranks carries frames: headers of 64 bytes, little-endian, each followed by `frame.length`
// bytes.
//   The header's own checksum covers all fields before it; `payload_crc` the bytes that follow. Headers are numbered
//   per connection, from 1, so that a lost, repeated or exchanged frame is found like a damaged one.
//   On a sealed connection (net/link/seal.h) a header is a record of its own, with 16 bytes of tag behind it, and so
//   are
// the bytes that follow, if there are any. `payload_crc` is 0 then. A header is believed before its bytes have come.
//   Memory that is sent without a copy (kHeld) is read by the receiver's kernel until the receiver has taken the bytes
//   out of it; `received` says so, with whatever goes the other way, or with a header for that alone (kBare).
namespace weft::net::tcp {

using messages::Frame;
using messages::FrameKind;

inline constexpr std::uint16_t kFrameMagic = 0xf177;

inline constexpr std::uint16_t kHeld = 1;  // the sender waits until this frame has been received
inline constexpr std::uint16_t kBare = 2;  // only `received`; the frame means nothing
inline constexpr std::uint16_t kLost = 4;  // with kBare: the frame says that another connection is lost, see Loss

// What a rank says of a connection that is lost to it, over another one: its lane, how often that was lost before, and
// how many of its frames have come whole. The others are sent again, over other connections.
struct Loss {
  std::uint16_t lane = 0;
  std::uint32_t before = 0, received = 0;
};

struct Header {
  std::uint16_t magic = kFrameMagic;
  std::uint16_t flags = 0;
  std::uint32_t sequence = 0;  // of the frame on its connection
  Frame frame;
  std::uint32_t received = 0;  // frames of this connection that the sender of the header has whole, modulo 2^32
  std::uint32_t context = 0;   // of the communicator, at the receiver
  std::uint32_t payload_crc = 0;
  std::uint32_t header_crc = 0;

  bool operator==(const Header&) const = default;
};
static_assert(sizeof(Header) == 64 && std::is_trivially_copyable_v<Header>);

// Fills in the header's checksum.
void seal(Header& header);

// Empty if the header is sound and the next of its connection. Otherwise what is wrong with it.
std::string fault_of(const Header& header, std::uint32_t expected_sequence);

}  // namespace weft::net::tcp
