#pragma once

#include <cstddef>
#include <cstdint>

// What both ends of a connection in memory compute alike: which slot a message has, what its flags say, where its bytes
// lie among them. Host fabrics and GPU kernels use the same functions (constexpr, without any other header of weft).
namespace weft::protocol {

inline constexpr int kSlots = 8;  // messages that a connection holds

// Messages of a connection are numbered from 1; slots are reused in turn.
constexpr std::size_t slot_after(std::uint64_t messages) { return messages % kSlots; }
constexpr bool has_room(std::uint64_t sent, std::uint64_t taken) { return sent - taken < kSlots; }

// GPU kernels: the upper 16 bits of a 64-bit flag are the tag of the sender's call: a message that is due but has
// another tag belongs to a call that the ranks disagree on.
inline constexpr int kTagShift = 48;

// The part of a call's signature that travels with every message.
constexpr std::uint16_t tag_of(std::uint64_t signature) {
  return static_cast<std::uint16_t>(signature ^ signature >> 16 ^ signature >> 32 ^ signature >> 48);
}
constexpr std::uint64_t flag_of(std::uint64_t number, std::uint16_t tag) {
  return number | std::uint64_t{tag} << kTagShift;
}
constexpr std::uint64_t number_in(std::uint64_t flag) { return flag & ((std::uint64_t{1} << kTagShift) - 1); }
constexpr std::uint16_t tag_in(std::uint64_t flag) { return static_cast<std::uint16_t>(flag >> kTagShift); }

// LL's flags have 32 bits: odd, so that none equals memory that was never written or that was cleared. Half of their
// range before they repeat, whatever may have been left from then is cleared: a slot per message for one round.
constexpr std::uint32_t short_flag_of(std::uint64_t number) { return static_cast<std::uint32_t>(number << 1 | 1); }
constexpr bool clears_slot(std::uint64_t number) {
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 30;
  return number >= kHalf && number % kHalf < kSlots;
}

// Lines of `kDataBytes` and a flag behind them.
template <std::size_t kDataBytes, std::size_t kFlagBytes>
struct LineFormat {
  static constexpr std::size_t kData = kDataBytes, kBytes = kDataBytes + kFlagBytes;

  // The line that a byte of the message lies in, where that line begins, and where the byte lies.
  static constexpr std::size_t line_of(std::size_t byte) { return byte / kData; }
  static constexpr std::size_t begin_of(std::size_t line) { return line * kBytes; }
  static constexpr std::size_t place_of(std::size_t byte) { return begin_of(line_of(byte)) + byte % kData; }
  static constexpr std::size_t lines(std::size_t bytes) { return (bytes + kData - 1) / kData; }
};
using LineLL = LineFormat<4, 4>;
using LineLL64 = LineFormat<56, 8>;
using LineLL128 = LineFormat<120, 8>;

}  // namespace weft::protocol
