#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "net/memory/prefetch.h"
#include "plan/protocol/slots.h"

// The line protocols in memory: data and the number of the message they belong to travel in one line, so that a reader
// who sees the number has the data, without a counter that would cost another cache line.
//   Writer  stores a line's data, then its flag (release). Reader polls the flag (acquire), then loads the data.
//   Messages are numbered from 1 on a connection and slots are reused in turn, so an old flag never equals an expected
//   one. The lines of one message are written in order: seeing a line's flag means that all before it are there. A torn
//   read is impossible: data is read only after its flag, and the writer does not touch the slot again before the
//   reader has moved the connection's `head` past it.
namespace weft::net::memory {

// Flags: the lower half is the message's number modulo 2^32, the upper half the tag of the sender's calls so far and
// the bits of the number that the lower half lacks. A message that is due but has another tag belongs to calls that the
// ranks disagree on.
constexpr std::uint64_t flag_of(std::uint64_t number, std::uint32_t tag) { return number ^ std::uint64_t{tag} << 32; }
// How many messages behind this one the flag's is; negative: before it.
constexpr std::int32_t messages_behind(std::uint64_t number, std::uint64_t flag) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(flag) - static_cast<std::uint32_t>(number));
}
constexpr bool is_of(std::uint64_t number, std::uint64_t flag) { return messages_behind(number, flag) == 0; }
// The part of a signature that travels with every message and signal.
constexpr std::uint32_t tag_of(std::uint64_t signature) {
  return static_cast<std::uint32_t>(signature ^ signature >> 32);
}

// LL64 and LL128: lines of 56 + 8 and 120 + 8 bytes. Hardware moves 64 bytes at a time, so that of LL128's two halves
// the one with the flag is written last and read first: two lines' latency, but 6 % of overhead instead of 12 %.
template <class Format>
struct FlaggedLines : Format {
  using Flag = std::uint64_t;
  using Format::kBytes, Format::kData;
  static_assert(kBytes % 64 == 0 && std::atomic_ref<Flag>::is_always_lock_free);

  static std::atomic_ref<Flag> flag(const std::byte* slot, std::size_t line) {
    return std::atomic_ref<Flag>(
        *reinterpret_cast<Flag*>(const_cast<std::byte*>(slot) + Format::begin_of(line) + kData));
  }
  // The flag of the line that byte `end` - 1 of the message lies in.
  static Flag flag_of(const std::byte* slot, std::size_t end) {
    return flag(slot, Format::line_of(end - 1)).load(std::memory_order_acquire);
  }
  static void pack(std::byte* slot, const std::byte* data, std::size_t size, Flag value) {
    prefetch_to_write(slot, Format::begin_of(Format::lines(size)));
    const std::size_t whole = size / kData;  // copied by a constant size, without a call
    for (std::size_t i = 0; i < whole; ++i) {
      std::memcpy(slot + Format::begin_of(i), data + i * kData, kData);
      flag(slot, i).store(value, std::memory_order_release);
    }
    if (size % kData == 0) return;
    std::memcpy(slot + Format::begin_of(whole), data + whole * kData, size % kData);
    flag(slot, whole).store(value, std::memory_order_release);
  }
  // Bytes `offset` … `offset + size` of the message. Requires: their flags were seen.
  static void unpack(const std::byte* slot, std::size_t offset, std::size_t size, std::byte* to) {
    const auto load = [&](std::size_t part) {
      std::memcpy(to, slot + Format::place_of(offset), part);
      offset += part, to += part, size -= part;
    };
    if (offset % kData != 0) load(std::min(kData - offset % kData, size));
    while (size >= kData) load(kData);
    if (size > 0) load(size);
  }
};

// LL: words of 4 bytes of data and 4 of flag that one 8-byte store writes and one load reads. Their flags
// repeat, so a slot is cleared before they do (see protocol::clears_slot).
struct FlaggedWords : protocol::LineLL {
  using Flag = std::uint32_t;

  static std::atomic_ref<std::uint64_t> word(const std::byte* slot, std::size_t i) {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(slot) + i * kBytes));
  }
  static Flag flag_of(const std::byte* slot, std::size_t end) {
    return static_cast<Flag>(word(slot, line_of(end - 1)).load(std::memory_order_acquire) >> 32);
  }
  static void pack(std::byte* slot, const std::byte* data, std::size_t size, Flag value) {
    const auto store = [&](std::size_t i, std::size_t part) {
      std::uint32_t four = 0;
      std::memcpy(&four, data + i * kData, part);
      word(slot, i).store(std::uint64_t{value} << 32 | four, std::memory_order_release);
    };
    const std::size_t whole = size / kData;
    for (std::size_t i = 0; i < whole; ++i) store(i, kData);
    if (size % kData != 0) store(whole, size % kData);
  }
  static void unpack(const std::byte* slot, std::size_t offset, std::size_t size, std::byte* to) {
    const auto load = [&](std::size_t within, std::size_t part) {
      const auto four = static_cast<std::uint32_t>(word(slot, line_of(offset)).load(std::memory_order_relaxed));
      std::memcpy(to, reinterpret_cast<const std::byte*>(&four) + within, part);
      offset += part, to += part, size -= part;
    };
    if (offset % kData != 0 && size > 0) load(offset % kData, std::min(kData - offset % kData, size));
    while (size >= kData) load(0, kData);
    if (size > 0) load(0, size);
  }
};

}  // namespace weft::net::memory
