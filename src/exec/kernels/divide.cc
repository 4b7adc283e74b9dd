#include "exec/kernels/families.h"

// Compiled once per instruction set by Highway's foreach_target, then dispatched at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/divide.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "exec/kernels/divide.h"

#ifndef WEFT_EXEC_KERNELS_DIVIDE_ONCE
#define WEFT_EXEC_KERNELS_DIVIDE_ONCE

#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/check.h"

namespace weft::exec {

__extension__ using Wide128 = unsigned __int128;

// x / n without division, for unsigned x of k bits (Granlund and Montgomery, Division by Invariant Integers using
// Multiplication, 1994, figure 4.1): with l = ceil(log2 n) and m = floor(2^k (2^l - n) / n) + 1, t = the upper half of
// m x, x / n = (t + (x - t >> min(l, 1))) >> max(l - 1, 0).
template <class U>
struct Reciprocal {
  explicit Reciprocal(std::uint64_t n) {
    const int l = std::bit_width(n - 1);
    multiplier = static_cast<U>(((((Wide128{1} << l) - n) << (8 * sizeof(U))) / n) + 1);
    first_shift = l < 1 ? l : 1;
    second_shift = l - first_shift;
  }
  U multiplier;
  int first_shift, second_shift;
};

}  // namespace weft::exec
#endif  // WEFT_EXEC_KERNELS_DIVIDE_ONCE

HWY_BEFORE_NAMESPACE();
namespace weft::exec::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class U>
U quotient(U x, const Reciprocal<U>& r) {
  using Wide = std::conditional_t<sizeof(U) == 8, Wide128, std::uint64_t>;
  const auto t = static_cast<U>((Wide{r.multiplier} * x) >> (8 * sizeof(U)));
  return static_cast<U>(static_cast<U>(t + static_cast<U>(static_cast<U>(x - t) >> r.first_shift)) >> r.second_shift);
}

// Signed numbers are divided by magnitude: towards zero.
template <class T>
void divide_elements(std::byte* data, std::size_t begin, std::size_t end,
                     const Reciprocal<std::make_unsigned_t<T>>& r) {
  using U = std::make_unsigned_t<T>;
  for (std::size_t at = begin; at < end; at += sizeof(T)) {
    U x;
    std::memcpy(&x, data + at, sizeof(T));
    const auto sign = static_cast<U>(std::is_signed_v<T> && x >> (8 * sizeof(T) - 1) != 0 ? ~U{0} : U{0});
    const U q = quotient(static_cast<U>((x ^ sign) - sign), r);
    x = static_cast<U>((q ^ sign) - sign);
    std::memcpy(data + at, &x, sizeof(T));
  }
}

#if HWY_TARGET != HWY_SCALAR

template <class V>
HWY_INLINE V upper_half(V a, V b, std::uint16_t) {
  return hn::MulHigh(a, b);
}
template <class V>
HWY_INLINE V upper_half(V a, V b, std::uint32_t) {
  const hn::ScalableTag<std::uint32_t> d32;
  const hn::ScalableTag<std::uint64_t> d64;
  const auto even = hn::ShiftRight<32>(hn::MulEven(a, b));
  const auto odd = hn::MulEven(hn::BitCast(d32, hn::ShiftRight<32>(hn::BitCast(d64, a))), b);
  return hn::Or(hn::BitCast(d32, even),
                hn::And(hn::BitCast(d32, odd), hn::BitCast(d32, hn::Set(d64, ~std::uint64_t{0} << 32))));
}

template <class V>
HWY_INLINE V upper_half(V a, V b, std::uint64_t) {
  const hn::ScalableTag<std::uint32_t> d32;
  const auto low = hn::Set(hn::ScalableTag<std::uint64_t>(), 0xffffffffu);
  const auto a_low = hn::BitCast(d32, a), a_high = hn::BitCast(d32, hn::ShiftRight<32>(a));
  const auto b_low = hn::BitCast(d32, b), b_high = hn::BitCast(d32, hn::ShiftRight<32>(b));
  const auto crossed = hn::MulEven(a_low, b_high);
  const auto middle = hn::Add(hn::Add(hn::ShiftRight<32>(hn::MulEven(a_low, b_low)), hn::MulEven(a_high, b_low)),
                              hn::And(crossed, low));
  return hn::Add(hn::Add(hn::MulEven(a_high, b_high), hn::ShiftRight<32>(crossed)), hn::ShiftRight<32>(middle));
}

template <class U, class V>
HWY_INLINE V quotients(V x, V multiplier, const Reciprocal<U>& r) {
  const V t = upper_half(x, multiplier, U{});
  const V half = r.first_shift == 0 ? hn::Sub(x, t) : hn::ShiftRight<1>(hn::Sub(x, t));
  return hn::ShiftRightSame(hn::Add(t, half), r.second_shift);
}

// 16 bits and more in lanes of their own.
template <class T>
std::size_t divide_vectors(std::byte* raw, std::size_t bytes, const Reciprocal<std::make_unsigned_t<T>>& r) {
  using U = std::make_unsigned_t<T>;
  const hn::ScalableTag<U> d;
  const hn::ScalableTag<std::make_signed_t<T>> ds;
  const auto multiplier = hn::Set(d, r.multiplier);
  auto* data = reinterpret_cast<U*>(raw);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= bytes / sizeof(T); i += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, data + i);
    if constexpr (std::is_signed_v<T>) {
      const auto sign = hn::BitCast(d, hn::ShiftRight<8 * sizeof(T) - 1>(hn::BitCast(ds, x)));
      const auto q = quotients(hn::Sub(hn::Xor(x, sign), sign), multiplier, r);
      hn::StoreU(hn::Sub(hn::Xor(q, sign), sign), d, data + i);
    } else {
      hn::StoreU(quotients(x, multiplier, r), d, data + i);
    }
  }
  return i * sizeof(T);
}

// 8 bits in lanes of 16, even and odd ones apart. With m = floor(2^16 / n) + 1, x / n is the upper half of m x for all
// x < 256 and 2 <= n < 256: m n exceeds 2^16 by at most n, and x n < 2^16.
template <class T>
std::size_t divide_bytes(std::byte* raw, std::size_t bytes, std::uint64_t divisor) {
  const hn::ScalableTag<std::uint16_t> d;
  const hn::ScalableTag<std::int16_t> ds;
  const auto multiplier = hn::Set(d, static_cast<std::uint16_t>(65536 / divisor + 1)), low = hn::Set(d, 0x00ff);
  auto* data = reinterpret_cast<std::uint16_t*>(raw);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= bytes / 2; i += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, data + i);
    if constexpr (std::is_signed_v<T>) {
      const auto even = hn::BitCast(d, hn::ShiftRight<8>(hn::BitCast(ds, hn::ShiftLeft<8>(x))));
      const auto odd = hn::BitCast(d, hn::ShiftRight<8>(hn::BitCast(ds, x)));
      const auto even_sign = hn::BitCast(d, hn::ShiftRight<15>(hn::BitCast(ds, even)));
      const auto odd_sign = hn::BitCast(d, hn::ShiftRight<15>(hn::BitCast(ds, odd)));
      const auto e = hn::MulHigh(hn::Sub(hn::Xor(even, even_sign), even_sign), multiplier);
      const auto o = hn::MulHigh(hn::Sub(hn::Xor(odd, odd_sign), odd_sign), multiplier);
      const auto signed_e = hn::Sub(hn::Xor(e, even_sign), even_sign);
      const auto signed_o = hn::Sub(hn::Xor(o, odd_sign), odd_sign);
      hn::StoreU(hn::Or(hn::And(signed_e, low), hn::ShiftLeft<8>(signed_o)), d, data + i);
    } else {
      const auto e = hn::MulHigh(hn::And(x, low), multiplier), o = hn::MulHigh(hn::ShiftRight<8>(x), multiplier);
      hn::StoreU(hn::Or(e, hn::ShiftLeft<8>(o)), d, data + i);
    }
  }
  return i * 2;
}

#endif  // HWY_TARGET

template <class T>
void divide_all(std::byte* data, std::size_t bytes, std::uint64_t divisor) {
  using U = std::make_unsigned_t<T>;
  if (divisor > std::numeric_limits<U>::max()) {  // more than any magnitude: -128 / 256 is 0
    std::memset(data, 0, bytes);
    return;
  }
  std::size_t done = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 1) done = divide_bytes<T>(data, bytes, divisor);
  if constexpr (sizeof(T) > 1) done = divide_vectors<T>(data, bytes, Reciprocal<U>(divisor));
#endif
  divide_elements<T>(data, done, bytes, Reciprocal<U>(divisor));
}

void divide_integers(DataType type, std::byte* data, std::size_t bytes, std::uint64_t divisor) {
  switch (type) {
    case DataType::kInt8:
      return divide_all<std::int8_t>(data, bytes, divisor);
    case DataType::kInt16:
      return divide_all<std::int16_t>(data, bytes, divisor);
    case DataType::kInt32:
      return divide_all<std::int32_t>(data, bytes, divisor);
    case DataType::kInt64:
      return divide_all<std::int64_t>(data, bytes, divisor);
    case DataType::kUint8:
      return divide_all<std::uint8_t>(data, bytes, divisor);
    case DataType::kUint16:
      return divide_all<std::uint16_t>(data, bytes, divisor);
    case DataType::kUint32:
      return divide_all<std::uint32_t>(data, bytes, divisor);
    case DataType::kUint64:
      return divide_all<std::uint64_t>(data, bytes, divisor);
    default:
      return;
  }
}

}  // namespace weft::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::exec {

HWY_EXPORT(divide_integers);

bool divides_at_the_end(DataType type, ReduceOp op, Rank ranks) {
  return op == ReduceOp::kAvg && !is_float(type) && ranks > 1;
}

std::optional<Scalar> scale_of(DataType type, ReduceOp op, Rank ranks, std::optional<Scalar> own) {
  if (op == ReduceOp::kPremulSum) return own;
  if (op == ReduceOp::kAvg && is_float(type) && ranks > 1) return Scalar{1.0 / ranks, 1};
  return {};
}

void divide(DataType type, std::byte* data, Bytes bytes, std::int64_t divisor) {
  WEFT_REQUIRE(!is_float(type) && divisor > 0, "divisor {}", divisor);
  if (divisor > 1) HWY_DYNAMIC_DISPATCH(divide_integers)
  (type, data, static_cast<std::size_t>(bytes), static_cast<std::uint64_t>(divisor));
}

}  // namespace weft::exec
#endif  // HWY_ONCE
