#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/units.h"
#include "plan/protocol/slots.h"

// The frames of ranks that only send messages, the same on every carrier. Little-endian.
namespace weft::net::messages {

// Messages that a sender may have under way on one strand: protocol Simple's slots, and more small ones, up to
// kSmallUnderWay bytes together. Ranks that share a core then take many per time slice; more bytes would fall out of
// the cache.
inline constexpr int kSlots = protocol::kSlots, kMostUnderWay = 64;
inline constexpr Bytes kSmallUnderWay = Bytes{256} << 10;
inline constexpr int kStrands = 8;            // of calls …
inline constexpr int kLaneStrand = kStrands;  // … and the one beside them, see fabric::Lane
inline constexpr int kStreams = kStrands + 1;
inline constexpr Bytes kSlotBytes = Bytes{128} << 10;  // several fit a core's cache; larger ones measured slower
inline constexpr std::size_t kScratchBytes = 1 << 20;

enum class FrameKind : std::uint8_t {
  kData = 1,  // a part of a message: number, offset, total
  kSignal,    // number: signals sent on this strand so far
  kCredit,    // only `taken`
  kBye,       // the sender has left in good order; number: what it sent, see Frame::weight
  kBroken,    // the communicator is broken; number: 1 + the rank at fault; offset: fabric::Cause, and above its low
              // byte 1 + the rank that found it; tag, total, chain: bootstrap::Member::Clash
  kQuery,     // I wait for you: number, tag: of my call
  kAnswer,  // number, tag: of your call or, if I have not begun that, of my latest; offset: 1 + whom I wait for; total:
            // 1 + whom I hold to be at fault
  kCall,    // a call of mine: number, chain; tag, offset, total: its fabric::Description
  kPast,    // number: of my latest call, which is behind yours; tag: what I have sent you so far, see Frame::weight
  kPart,    // to the node that sums messages: message `number` is a part of the Sum in tag, offset and total
  kGone,    // to a process's hub: no communicator has the number `number` here any more
};

inline constexpr std::uint8_t kEnd = 1;      // data: the message is complete with this part, or striped
inline constexpr std::uint8_t kStriped = 2;  // data: parts come in any order

struct Frame {
  FrameKind kind = FrameKind::kData;
  std::uint8_t flags = 0;
  std::uint16_t strand = 0;
  std::uint32_t length = 0;  // bytes that follow
  std::uint64_t number = 0;  // of the message on its strand, from 1
  std::uint64_t tag = 0;     // of the sender's call
  std::uint32_t offset = 0;  // of this part in the message
  std::uint32_t total = 0;   // of the message, with kEnd
  std::uint32_t taken = 0;   // messages of this strand that the sender of the frame has taken, modulo 2^32
  std::uint32_t chain = 0;   // kCall: fingerprint of the calls up to this one, see chain_of

  // What a peer must have seen before the sender counts as gone, summed over frames; the same however data is cut. A
  // message without bytes counts as one.
  std::uint64_t weight() const {
    if (kind == FrameKind::kData) return length + ((flags & kEnd) != 0 && total == 0 ? 1 : 0);
    return kind == FrameKind::kSignal ? 1 : 0;
  }
  bool operator==(const Frame&) const = default;
};
static_assert(sizeof(Frame) == 40 && std::is_trivially_copyable_v<Frame>);

// Which messages a node of the network sums: one of every rank of a group. As a kPart says it.
struct Sum {
  Rank first = 0, count = 0, stride = 0;
  std::uint32_t reduction = 0;  // see fabric::Call

  Rank member(Rank i) const { return first + i * stride; }
  bool operator==(const Sum&) const = default;
};
// The fingerprint of a call's signature.
constexpr std::uint32_t chain_of(std::uint64_t signature) {
  return static_cast<std::uint32_t>(signature ^ signature >> 32);
}

Frame part_of(const Sum& sum, std::uint16_t strand, std::uint64_t number);
Sum sum_of(const Frame& part);

// Empty if nothing in it leads beyond a slot or a strand. Otherwise what is wrong with it.
std::string fault_of(const Frame& frame);

}  // namespace weft::net::messages
