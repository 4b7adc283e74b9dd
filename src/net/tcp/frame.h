#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/units.h"

// What crosses a connection between two ranks: headers of 56 bytes, little-endian, each followed by `length` bytes.
//   The header's own checksum covers all fields before it; `payload_crc` the bytes that follow. Frames are numbered per
//   connection, from 1, so that a lost, repeated or exchanged frame is found like a damaged one.
namespace weft::net::tcp {

inline constexpr std::uint16_t kFrameMagic = 0xf177;
inline constexpr int kSlots = 8;  // messages that a sender may have under way on one strand: protocol Simple's slots
inline constexpr int kStrands = 8;
inline constexpr Bytes kSlotBytes = Bytes{128} << 10;  // several fit a core's cache; larger ones measured slower
inline constexpr std::size_t kScratchBytes = 1 << 20;

enum class FrameKind : std::uint8_t {
  kData = 1,  // a part of a message: number, offset, total
  kSignal,    // number: signals sent on this strand so far
  kCredit,    // only `taken`
  kBye,       // the sender has left in good order and says nothing more
  kBroken,    // the communicator is broken; number: 1 + the rank at fault; offset: fabric::Cause
  kQuery,     // I wait for you: number, tag: of my call
  kAnswer,    // number, tag: of my call; offset: 1 + whom I wait for; total: 1 + whom I hold to be at fault
  kPart,      // to the node that sums messages: message `number` is a part of the Sum in tag, offset and total
};

inline constexpr std::uint8_t kEnd = 1;      // data: the message is complete with this part, or striped
inline constexpr std::uint8_t kStriped = 2;  // data: parts cross several connections, in any order

struct Header {
  std::uint16_t magic = kFrameMagic;
  FrameKind kind = FrameKind::kData;
  std::uint8_t flags = 0;
  std::uint16_t strand = 0;
  std::uint16_t reserved = 0;
  std::uint32_t sequence = 0;  // of the frame on its connection
  std::uint32_t length = 0;    // bytes that follow
  std::uint64_t number = 0;    // of the message on its strand, from 1
  std::uint64_t tag = 0;       // of the sender's call
  std::uint32_t offset = 0;    // of this part in the message
  std::uint32_t total = 0;     // of the message, with kEnd
  std::uint32_t taken = 0;     // messages of this strand that the sender of the frame has taken, modulo 2^32
  std::uint32_t payload_crc = 0;
  std::uint32_t unused = 0;
  std::uint32_t header_crc = 0;

  bool operator==(const Header&) const = default;
};
static_assert(sizeof(Header) == 56 && std::is_trivially_copyable_v<Header>);

// Which messages a node of the network sums: one of every rank of a group. As a kPart says it.
struct Sum {
  Rank first = 0, count = 0, stride = 0;
  std::uint32_t reduction = 0;  // see fabric::Call

  Rank member(Rank i) const { return first + i * stride; }
  bool operator==(const Sum&) const = default;
};
Header part_of(const Sum& sum, std::uint16_t strand, std::uint64_t number);
Sum sum_of(const Header& part);

// Fills in the header's checksum.
void seal(Header& header);

// Empty if the header is sound and the next of its connection: nothing in it leads beyond a slot or a strand.
// Otherwise what is wrong with it.
std::string fault_of(const Header& header, std::uint32_t expected_sequence);

}  // namespace weft::net::tcp
