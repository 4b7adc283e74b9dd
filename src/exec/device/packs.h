#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "exec/kernels/arithmetic.h"
#include "plan/protocol/slots.h"
#include "weft/device.h"

// What one thread of a kernel works on at a time: 16 bytes, the widest load and store there is; and how a protocol
// spreads a message over such units. Constexpr: the same on the host.
namespace weft::exec::device {

using weft::device::load_some;
using weft::device::Pack;
using weft::device::store_some;

// A pack's elements, as what they are calculated with.
template <class T>
struct Lanes {
  static constexpr int kCount = static_cast<int>(sizeof(Pack) / sizeof(T));
  struct Stored {
    T at[kCount];
  };
  Computed<T> at[kCount];

  static constexpr Lanes widen(Pack pack) {
    const auto stored = std::bit_cast<Stored>(pack);
    Lanes lanes;
    for (int i = 0; i < kCount; ++i) lanes.at[i] = static_cast<Computed<T>>(stored.at[i]);
    return lanes;
  }
  constexpr Pack narrow() const {
    Stored stored;
    for (int i = 0; i < kCount; ++i) stored.at[i] = static_cast<T>(at[i]);
    return std::bit_cast<Pack>(stored);
  }
  constexpr void scale(const Scalar& by) {
    for (int i = 0; i < kCount; ++i) at[i] = Multiply::of(at[i], scalar_for<T>(by));
  }
  template <class Op>
  constexpr void combine(const Lanes& other) {
    for (int i = 0; i < kCount; ++i) at[i] = Op::of(at[i], other.at[i]);
  }
  constexpr void combine(ReduceOp op, const Lanes& other) {
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
      case ReduceOp::kPremulSum:
        return combine<Add>(other);
      case ReduceOp::kProd:
        return combine<Multiply>(other);
      case ReduceOp::kMin:
        return combine<Minimum>(other);
      case ReduceOp::kMax:
        return combine<Maximum>(other);
      default:
        if constexpr (std::integral<T>) bitwise(op, other);
    }
  }

 private:
  constexpr void bitwise(ReduceOp op, const Lanes& other) {
    if (op == ReduceOp::kAnd)
      combine<And>(other);
    else if (op == ReduceOp::kOr)
      combine<Or>(other);
    else
      combine<Xor>(other);
  }
};

// One thread's share of a message: where its data begins, how many bytes that is (0: none, the unit only fills up a
// warp), and where it lies on the wire.
struct Unit {
  std::int64_t offset, size, wire;
};
constexpr std::int64_t clip(std::int64_t size, std::int64_t most) { return size < 0 ? 0 : size < most ? size : most; }

// Memory, slots of Simple among it: 16 bytes after the other.
struct MemoryUnits {
  static constexpr std::int64_t count(std::int64_t bytes) { return (bytes + 15) / 16; }
  static constexpr Unit at(std::int64_t u, std::int64_t bytes) { return {16 * u, clip(bytes - 16 * u, 16), 16 * u}; }
};

// LL: four words of four bytes and a flag each.
struct WordUnits {
  static constexpr std::int64_t count(std::int64_t bytes) { return MemoryUnits::count(bytes); }
  static constexpr Unit at(std::int64_t u, std::int64_t bytes) {
    const auto wire = static_cast<std::int64_t>(protocol::LineLL::place_of(static_cast<std::size_t>(16 * u)));
    return {16 * u, clip(bytes - 16 * u, 16), wire};
  }
};

// LL128: eight lanes share a line; the last one has eight bytes and the flag.
struct LineUnits {
  static constexpr int kLanes = 8;
  static constexpr std::int64_t count(std::int64_t bytes) {
    return static_cast<std::int64_t>(protocol::LineLL128::lines(static_cast<std::size_t>(bytes))) * kLanes;
  }
  static constexpr bool has_flag(std::int64_t u) { return u % kLanes == kLanes - 1; }
  static constexpr Unit at(std::int64_t u, std::int64_t bytes) {
    const auto line = static_cast<std::size_t>(u / kLanes);
    const auto offset = static_cast<std::int64_t>(line * protocol::LineLL128::kData) + u % kLanes * 16;
    const auto wire = static_cast<std::int64_t>(protocol::LineLL128::begin_of(line)) + u % kLanes * 16;
    return {offset, clip(bytes - offset, has_flag(u) ? 8 : 16), wire};
  }
};

}  // namespace weft::exec::device
