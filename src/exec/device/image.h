#pragma once

#include <cstddef>
#include <cstdint>

// A rank's program as one flat array of bytes, for kernels: offsets instead of pointers, plain integers, so that it can
// be copied to a device as it is.
//
//   ImageHeader | FlatStrand x strands | FlatOperation x operations | FlatEnd x ends
namespace weft::exec::device {

inline constexpr std::uint64_t kImageMagic = 0x31676d69'65770003;  // changes with the format
inline constexpr int kMostEnds = 64;                               // of one operation, sources and destinations

// protocol::End, but for switches: kinds and memories have the same numbers.
struct FlatEnd {
  static constexpr std::uint8_t kLocal = 0, kMessage = 1, kRemote = 2;  // kinds
  static constexpr std::uint8_t kIn = 0, kOut = 1, kScratch = 2;        // memories

  std::int64_t offset;
  std::int32_t peer;
  std::int16_t strand;
  std::uint16_t tag;
  std::uint8_t kind, memory, last, spare[5];

  constexpr bool message() const { return kind == kMessage; }
  constexpr bool remote() const { return kind == kRemote; }
};
static_assert(sizeof(FlatEnd) == 24);

struct FlatOperation {
  static constexpr std::uint8_t kMove = 0, kSignal = 1, kWait = 2;  // kinds

  std::int64_t bytes;
  std::int32_t peer;
  std::int32_t ends;  // how far behind this operation its ends lie, in bytes: sources, then destinations
  std::uint16_t sources, destinations;
  std::int16_t strand;
  std::uint8_t kind, spare;

  constexpr bool own() const { return strand >= 0; }
  constexpr bool moves() const { return kind == kMove; }
  constexpr bool signals() const { return kind == kSignal; }
};
static_assert(sizeof(FlatOperation) == 24);

// Its operations and their ends; both lie side by side.
struct FlatStrand {
  std::int32_t first, count, first_end, ends;
};

struct ImageHeader {
  std::uint64_t magic;
  std::int32_t strands, operations, ends;
  std::int32_t spare;

  constexpr std::int64_t strand(std::int64_t i) const {
    return std::int64_t{sizeof(ImageHeader)} + i * std::int64_t{sizeof(FlatStrand)};
  }
  constexpr std::int64_t operation(std::int64_t i) const {
    return strand(strands) + i * std::int64_t{sizeof(FlatOperation)};
  }
  constexpr std::int64_t end(std::int64_t i) const { return operation(operations) + i * std::int64_t{sizeof(FlatEnd)}; }
  constexpr std::int64_t total_bytes() const { return end(ends); }
};
static_assert(sizeof(ImageHeader) % 8 == 0 && sizeof(FlatStrand) == 16);

}  // namespace weft::exec::device
