#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "tests/ptx/instruction.h"

// A register's 64 bits as a value of a type; what lies above the type's bits is of no meaning.
namespace weft::ptx {

using Half = _Float16;

// The upper half of a float. Sums and products of two are right if they are rounded to float first: that has more than
// twice the digits.
class UpperHalf {
 public:
  UpperHalf() = default;
  explicit UpperHalf(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    bits_ = value != value ? 0x7fff : static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(std::uint32_t{bits_} << 16); }

 private:
  std::uint16_t bits_ = 0;
};

// Floats of eight bits: e4m3 has no infinity and one NaN of each sign, e5m2 has both as IEEE has them.
struct Eighth {
  int exponent_bits, mantissa_bits, bias;
  float most;
  bool infinite;
};
constexpr Eighth kE4M3{4, 3, 7, 448.0f, false}, kE5M2{5, 2, 15, 57344.0f, true};
float widen(const Eighth& format, std::uint8_t bits);
// To the nearest, even where two are as near; beyond the range its end.
std::uint8_t narrow(const Eighth& format, double value);

template <class T>
T get(std::uint64_t bits) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<T>(bits);
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<T>(static_cast<std::uint32_t>(bits));
  } else if constexpr (sizeof(T) == 2) {
    return std::bit_cast<T>(static_cast<std::uint16_t>(bits));
  } else {
    return std::bit_cast<T>(static_cast<std::uint8_t>(bits));
  }
}

// Signed integers are extended: a register may be wider than the instruction's type.
template <class T>
std::uint64_t put(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  } else if constexpr (sizeof(T) == 8) {
    return std::bit_cast<std::uint64_t>(value);
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<std::uint32_t>(value);
  } else {
    return std::bit_cast<std::uint16_t>(value);
  }
}

// Calls use(T{}) with the type's value; predicates are bytes.
template <class Use>
void with_type(Type type, Use&& use) {
  switch (type) {
    case Type::kPred:
    case Type::kU8:
      return use(std::uint8_t{});
    case Type::kS8:
      return use(std::int8_t{});
    case Type::kU16:
      return use(std::uint16_t{});
    case Type::kS16:
      return use(std::int16_t{});
    case Type::kF16:
      return use(Half{});
    case Type::kBF16:
      return use(UpperHalf{});
    case Type::kU32:
      return use(std::uint32_t{});
    case Type::kS32:
      return use(std::int32_t{});
    case Type::kF32:
      return use(float{});
    case Type::kU64:
      return use(std::uint64_t{});
    case Type::kS64:
      return use(std::int64_t{});
    case Type::kF64:
      return use(double{});
  }
}

template <class T>
constexpr bool kIsInteger = std::is_integral_v<T>;

}  // namespace weft::ptx
