#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "weft/low_precision.h"
#include "weft/types.h"

// The arithmetic of folds, one element at a time: what the vectorised kernels do in lanes, the same IEEE operations in
// the same order. Compile without contraction of a * b + c (-ffp-contract=off).
namespace weft::exec {

template <class T>
inline constexpr bool is_narrow =
    std::same_as<T, Float16> || std::same_as<T, Bfloat16> || std::same_as<T, Float8E4M3> || std::same_as<T, Float8E5M2>;

// What elements are combined as: narrow floats as float, all others as they are.
template <class T>
using Computed = std::conditional_t<is_narrow<T>, float, T>;

template <class T>
constexpr Computed<T> scalar_for(const Scalar& s) {
  if constexpr (std::integral<T>)
    return static_cast<T>(s.integer);
  else
    return static_cast<Computed<T>>(s.real);
}

// The other way round: an element as what contributions are multiplied by. Unsigned 64-bit numbers modulo 2^64, as sums
// are.
template <class T>
constexpr Scalar scalar_of(T element) {
  if constexpr (std::integral<T>)
    return Scalar::of(static_cast<std::int64_t>(element));
  else
    return Scalar::of(static_cast<double>(static_cast<Computed<T>>(element)));
}

// Integers wrap around; unsigned 64-bit arithmetic does so for every width without undefined behaviour.
struct Add {
  template <class C>
  static constexpr C of(C a, C b) {
    if constexpr (std::integral<C>)
      return static_cast<C>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    else
      return a + b;
  }
};

struct Multiply {
  template <class C>
  static constexpr C of(C a, C b) {
    if constexpr (std::integral<C>)
      return static_cast<C>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    else
      return a * b;
  }
};

// The sign bit, -0 included.
template <class C>
constexpr bool negative(C value) {
  using Bits = std::conditional_t<sizeof(C) == 8, std::int64_t, std::int32_t>;
  return std::bit_cast<Bits>(value) < 0;
}

// IEEE 754-2019 minimum and maximum.
struct Minimum {
  template <class C>
  static constexpr C of(C a, C b) {
    if constexpr (std::integral<C>) {
      return a < b ? a : b;
    } else {
      if (a != a) return a;
      if (b != b) return b;
      if (a == b) return negative(a) ? a : b;
      return a < b ? a : b;
    }
  }
};

struct Maximum {
  template <class C>
  static constexpr C of(C a, C b) {
    if constexpr (std::integral<C>) {
      return a < b ? b : a;
    } else {
      if (a != a) return a;
      if (b != b) return b;
      if (a == b) return negative(a) ? b : a;
      return a < b ? b : a;
    }
  }
};

struct And {
  template <class C>
  static constexpr C of(C a, C b) {
    return static_cast<C>(a & b);
  }
};
struct Or {
  template <class C>
  static constexpr C of(C a, C b) {
    return static_cast<C>(a | b);
  }
};
struct Xor {
  template <class C>
  static constexpr C of(C a, C b) {
    return static_cast<C>(a ^ b);
  }
};

}  // namespace weft::exec
