#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "tests/ptx/instruction.h"

// A register's 64 bits as a value of a type; what lies above the type's bits is of no meaning.
namespace weft::ptx {

using Half = _Float16;

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
