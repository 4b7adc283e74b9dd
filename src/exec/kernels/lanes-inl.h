// How elements of each type are loaded, combined and stored in vectors. Included once per instruction set; see
// fold-inl.h.
#if defined(WEFT_EXEC_KERNELS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_EXEC_KERNELS_LANES_INL_H_
#undef WEFT_EXEC_KERNELS_LANES_INL_H_
#else
#define WEFT_EXEC_KERNELS_LANES_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <limits>

#include "exec/kernels/arithmetic.h"

#if HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace weft::exec::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Lanes = hn::Vec<hn::ScalableTag<T>>;

template <bool kStream, class V, class T>
HWY_INLINE void put(V v, T* to) {
  const hn::ScalableTag<T> d;
  if constexpr (kStream)
    hn::Stream(v, d, to);
  else
    hn::StoreU(v, d, to);
}

// ---- operations on one vector of T --------------------------------------------------------------------------------

template <class T, class V>
HWY_INLINE V apply(Add, V a, V b) {
  return hn::Add(a, b);
}

// Lanes of 8 bits are multiplied as those of 16, even and odd ones apart.
template <class T, class V>
HWY_INLINE V apply(Multiply, V a, V b) {
  if constexpr (sizeof(T) == 1) {
    const hn::ScalableTag<std::uint16_t> d16;
    const auto wide_a = hn::BitCast(d16, a), wide_b = hn::BitCast(d16, b);
    const auto low = hn::Set(d16, 0x00ff);
    const auto even = hn::And(hn::Mul(wide_a, wide_b), low);
    const auto odd = hn::Mul(hn::AndNot(low, wide_a), hn::ShiftRight<8>(wide_b));
    return hn::BitCast(hn::ScalableTag<T>(), hn::Or(even, odd));
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 8 && HWY_TARGET != HWY_AVX3) {
    const hn::ScalableTag<std::uint32_t> d32;
    const hn::ScalableTag<std::uint64_t> d64;
    const auto a32 = hn::BitCast(d32, a), b32 = hn::BitCast(d32, b);
    const auto a_high = hn::BitCast(d32, hn::ShiftRight<32>(hn::BitCast(d64, a)));
    const auto b_high = hn::BitCast(d32, hn::ShiftRight<32>(hn::BitCast(d64, b)));
    const auto crossed = hn::Add(hn::MulEven(a_high, b32), hn::MulEven(a32, b_high));
    return hn::BitCast(hn::ScalableTag<T>(), hn::Add(hn::MulEven(a32, b32), hn::ShiftLeft<32>(crossed)));
  } else {
    return hn::Mul(a, b);
  }
}

// Min and max of instruction sets disagree on NaN and on zeros of both signs. Taken both ways round they differ only
// there, and then in bits that Or (the sign of -0, any NaN) and And put right; a NaN in `a` may be lost by And.
template <class T, class V>
HWY_INLINE V apply(Minimum, V a, V b) {
  if constexpr (std::is_integral_v<T>)
    return hn::Min(a, b);
  else
    return hn::Or(hn::Min(a, b), hn::Min(b, a));
}
template <class T, class V>
HWY_INLINE V apply(Maximum, V a, V b) {
  if constexpr (std::is_integral_v<T>)
    return hn::Max(a, b);
  else
    return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, hn::And(hn::Max(a, b), hn::Max(b, a))));
}
template <class T, class V>
HWY_INLINE V apply(And, V a, V b) {
  return hn::And(a, b);
}
template <class T, class V>
HWY_INLINE V apply(Or, V a, V b) {
  return hn::Or(a, b);
}
template <class T, class V>
HWY_INLINE V apply(Xor, V a, V b) {
  return hn::Xor(a, b);
}

// ---- formats: how a vector of elements becomes vectors to calculate with --------------------------------------------
// A format has: Element; Number, what is calculated with; Pack, one vector's elements as numbers; load; store. How many
// vectors of numbers a pack has follows from the sizes.

template <class V, int kVectors>
struct PackOf;
template <class V>
struct PackOf<V, 1> {
  V v0;
};
template <class V>
struct PackOf<V, 2> {
  V v0, v1;
};
template <class V>
struct PackOf<V, 4> {
  V v0, v1, v2, v3;
};

template <class Number, class Op, class V>
HWY_INLINE PackOf<V, 1> combine(const PackOf<V, 1>& a, const PackOf<V, 1>& b) {
  return {apply<Number>(Op(), a.v0, b.v0)};
}
template <class Number, class Op, class V>
HWY_INLINE PackOf<V, 2> combine(const PackOf<V, 2>& a, const PackOf<V, 2>& b) {
  return {apply<Number>(Op(), a.v0, b.v0), apply<Number>(Op(), a.v1, b.v1)};
}
template <class Number, class Op, class V>
HWY_INLINE PackOf<V, 4> combine(const PackOf<V, 4>& a, const PackOf<V, 4>& b) {
  return {apply<Number>(Op(), a.v0, b.v0), apply<Number>(Op(), a.v1, b.v1), apply<Number>(Op(), a.v2, b.v2),
          apply<Number>(Op(), a.v3, b.v3)};
}
template <class V>
HWY_INLINE void fill(PackOf<V, 1>& p, V v) {
  p = {v};
}
template <class V>
HWY_INLINE void fill(PackOf<V, 2>& p, V v) {
  p = {v, v};
}
template <class V>
HWY_INLINE void fill(PackOf<V, 4>& p, V v) {
  p = {v, v, v, v};
}

// Elements that are calculated with as they are.
template <class T>
struct Native {
  using Element = T;
  using Number = T;
  using Pack = PackOf<Lanes<T>, 1>;
  static constexpr int kUnroll = 2;  // packs in flight hide the latency of a chain of operations

  static HWY_INLINE Pack load(const T* from) { return {hn::LoadU(hn::ScalableTag<T>(), from)}; }
  template <bool kStream>
  static HWY_INLINE void store(const Pack& p, T* to) {
    put<kStream>(p.v0, to);
  }
};

using Words = Lanes<std::uint32_t>;
using Floats = Lanes<float>;

HWY_INLINE Words word(std::uint32_t value) { return hn::Set(hn::ScalableTag<std::uint32_t>(), value); }
HWY_INLINE Words words_of(Floats v) { return hn::BitCast(hn::ScalableTag<std::uint32_t>(), v); }
HWY_INLINE Floats floats_of(Words v) { return hn::BitCast(hn::ScalableTag<float>(), v); }
HWY_INLINE Words load_words(const void* from) {
  return hn::LoadU(hn::ScalableTag<std::uint32_t>(), static_cast<const std::uint32_t*>(from));
}
template <bool kStream>
HWY_INLINE void put_words(Words v, void* to) {
  put<kStream>(v, static_cast<std::uint32_t*>(to));
}

// Every 32-bit word holds two elements.
struct Bfloat16Lanes {
  using Element = Bfloat16;
  using Number = float;
  using Pack = PackOf<Floats, 2>;
  static constexpr int kUnroll = 1;

  static HWY_INLINE Pack load(const Bfloat16* from) {
    const Words w = load_words(from);
    return {floats_of(hn::ShiftLeft<16>(w)), floats_of(hn::And(w, word(0xffff0000)))};
  }
  // Rounded, in the upper half; the lower is garbage.
  static HWY_INLINE Words rounded(Floats v) {
    const Words w = words_of(v);
    const Words even = hn::And(hn::ShiftRight<16>(w), word(1));
    const Words r = hn::Add(hn::Add(w, word(0x7fff)), even);
    return words_of(hn::IfThenElse(hn::IsNaN(v), floats_of(hn::Or(w, word(0x7fc00000))), floats_of(r)));
  }
  template <bool kStream>
  static HWY_INLINE void store(const Pack& p, Bfloat16* to) {
    put_words<kStream>(hn::Or(hn::ShiftRight<16>(rounded(p.v0)), hn::And(rounded(p.v1), word(0xffff0000))), to);
  }
};

// An element of a NarrowFloat in the upper bits of every word, what is below it is ignored: to float.
template <class F>
HWY_INLINE Floats widen_words(Words w) {
  const Words magnitude =
      hn::And(hn::ShiftRight<9 - F::kExponent>(hn::ShiftLeft<1>(w)), word(F::kMagnitude << F::kDropped));
  // As a float with the same exponent field the value is 2^(127-bias) too small; subnormals come right too.
  const Words scale = word(static_cast<std::uint32_t>(254 - F::kBias) << 23);
  const Words scaled = words_of(hn::Mul(floats_of(magnitude), floats_of(scale)));
  const auto special = hn::Gt(
      hn::BitCast(hn::ScalableTag<std::int32_t>(), magnitude),
      hn::Set(hn::ScalableTag<std::int32_t>(), static_cast<std::int32_t>((F::kFirstSpecial << F::kDropped) - 1)));
  const Words exponent =
      hn::IfThenElseZero(hn::RebindMask(hn::ScalableTag<std::uint32_t>(), special), word(0x7f800000));
  return floats_of(hn::Or(hn::Or(scaled, exponent), hn::And(w, word(0x80000000))));
}

// The code of every float, in the lower bits of its word; see NarrowFloat::narrow.
template <class F>
HWY_INLINE Words narrow_words(Floats v) {
  const hn::ScalableTag<std::int32_t> di;
  const hn::ScalableTag<std::uint32_t> du;
  const Words w = words_of(v), magnitude = hn::And(w, word(0x7fffffff));
  const Words sign = hn::And(hn::ShiftRight<32 - F::kBits>(w), word(F::kMagnitude + 1));
  const Words even = hn::And(hn::ShiftRight<F::kDropped>(magnitude), word(1));
  const Words rounding = word((1u << (F::kDropped - 1)) - 1 - F::kRebias);
  const Words normal = hn::ShiftRight<F::kDropped>(hn::Add(hn::Add(magnitude, rounding), even));
  const Words tiny = hn::Sub(words_of(hn::Add(floats_of(magnitude), floats_of(word(F::kMagic)))), word(F::kMagic));
  const auto is_tiny = hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, static_cast<std::int32_t>(F::kLeastNormal)));
  const Words finite = hn::Min(hn::IfThenElse(hn::RebindMask(du, is_tiny), tiny, normal), word(F::kOverflow));
  const auto is_nan = hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7f800000));
  return hn::Or(sign, hn::IfThenElse(hn::RebindMask(du, is_nan), word(F::kQuietNan), finite));
}

#if HWY_TARGET < HWY_SSE4 || HWY_ARCH_ARM
// The instruction set converts.
struct Float16Lanes {
  using Element = Float16;
  using Number = float;
  using Pack = PackOf<Floats, 2>;
  static constexpr int kUnroll = 1;

  static HWY_INLINE Pack load(const Float16* from) {
    const hn::ScalableTag<float> df;
    const hn::Rebind<hwy::float16_t, decltype(df)> dh;
    const auto* half = reinterpret_cast<const hwy::float16_t*>(from);
    return {hn::PromoteTo(df, hn::LoadU(dh, half)), hn::PromoteTo(df, hn::LoadU(dh, half + hn::Lanes(df)))};
  }
  template <bool kStream>
  static HWY_INLINE void store(const Pack& p, Float16* to) {
    const hn::ScalableTag<std::uint16_t> d16;
    const hn::Half<decltype(d16)> half;
    const hn::Rebind<hwy::float16_t, hn::ScalableTag<float>> dh;
    const auto low = hn::BitCast(half, hn::DemoteTo(dh, p.v0)), high = hn::BitCast(half, hn::DemoteTo(dh, p.v1));
    put<kStream>(hn::Combine(d16, high, low), reinterpret_cast<std::uint16_t*>(to));
  }
};
#else
struct Float16Lanes {
  using Element = Float16;
  using Number = float;
  using Pack = PackOf<Floats, 2>;
  static constexpr int kUnroll = 1;

  static HWY_INLINE Pack load(const Float16* from) {
    const Words w = load_words(from);
    return {widen_words<impl::Binary16>(hn::ShiftLeft<16>(w)), widen_words<impl::Binary16>(w)};
  }
  template <bool kStream>
  static HWY_INLINE void store(const Pack& p, Float16* to) {
    using F = impl::Binary16;
    put_words<kStream>(hn::Or(narrow_words<F>(p.v0), hn::ShiftLeft<16>(narrow_words<F>(p.v1))), to);
  }
};
#endif

// The usual case of 8-bit floats, several times faster than the general one below: no NaN and no infinity among the
// sources, and no result that is smaller than the least normal number with bits to be rounded off.
// An element at the upper end of 16 bits, shifted so that its exponent ends where that of a bfloat16 does, is a
// bfloat16 which is 2^(127-bias) too small, subnormals too. Sums of such numbers are exact where sums of the elements
// are; they are rounded as bfloat16 to odd (the last bit says whether anything was lost), then as elements to nearest:
// together one rounding to nearest, since at least two bits are dropped the second time.
template <class F>
struct Shrunk {
  using Pack = PackOf<Floats, 4>;
  using Halves = Lanes<std::uint16_t>;
  static constexpr int kDropped = 7 - F::kMantissa;

  static HWY_INLINE Halves half(std::uint32_t value) {
    return hn::Set(hn::ScalableTag<std::uint16_t>(), static_cast<std::uint16_t>(value));
  }
  static HWY_INLINE Floats factor(int exponent) {
    return floats_of(word(static_cast<std::uint32_t>(127 + exponent) << 23));
  }
  static HWY_INLINE Pack multiply(const Pack& p, Floats by) {
    return {hn::Mul(p.v0, by), hn::Mul(p.v1, by), hn::Mul(p.v2, by), hn::Mul(p.v3, by)};
  }
  static HWY_INLINE Pack grow(const Pack& p) { return multiply(p, factor(127 - F::kBias)); }
  static HWY_INLINE Pack shrink(const Pack& p) { return multiply(p, factor(F::kBias - 127)); }

  // v0, v1: of every second element; v2, v3: of the others.
  static HWY_INLINE Pack open(Words w) {
    const hn::ScalableTag<std::int16_t> di;
    const hn::ScalableTag<std::uint32_t> du;
    const auto mask = hn::Set(di, static_cast<std::int16_t>(0x8000u | F::kMagnitude << kDropped));
    const auto both = hn::BitCast(di, w);
    const Words odd = hn::BitCast(du, hn::And(hn::ShiftRight<8 - F::kExponent>(both), mask));
    const Words even = hn::BitCast(du, hn::And(hn::ShiftRight<8 - F::kExponent>(hn::ShiftLeft<8>(both)), mask));
    const Words upper = word(0xffff0000);
    return {floats_of(hn::ShiftLeft<16>(even)), floats_of(hn::And(even, upper)), floats_of(hn::ShiftLeft<16>(odd)),
            floats_of(hn::And(odd, upper))};
  }
  // Rounded to odd as bfloat16, elements of `low` and `high` in turn; then to nearest, codes in the lower bytes .
  struct Narrowed {
    Halves codes, signs;  // in bits 0 to 6; in bit 15
  };
  static HWY_INLINE Narrowed narrow(Floats low, Floats high) {
    const hn::ScalableTag<std::uint16_t> d16;
    const Words l = words_of(low), h = words_of(high);
    const Halves kept = hn::OddEven(hn::BitCast(d16, h), hn::BitCast(d16, hn::ShiftRight<16>(l)));
    const Halves lost = hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(h)), hn::BitCast(d16, l));
    const Halves odd = hn::Or(kept, hn::Min(lost, half(1)));
    const Halves magnitude = hn::And(odd, half(0x7fff));
    const Halves even = hn::And(hn::ShiftRight<kDropped>(magnitude), half(1));
    const Halves rounded = hn::Add(hn::Add(magnitude, half((1u << (kDropped - 1)) - 1)), even);
    return {hn::Min(hn::ShiftRight<kDropped>(rounded), half(F::kOverflow)), kept};
  }
  static HWY_INLINE Words close(const Pack& p) {
    const Narrowed even = narrow(p.v0, p.v1), odd = narrow(p.v2, p.v3);
    const Halves codes = hn::Or(even.codes, hn::ShiftLeft<8>(odd.codes));
    const Halves signed_odd = hn::OrAnd(codes, odd.signs, half(0x8000));
    return hn::BitCast(hn::ScalableTag<std::uint32_t>(),
                       hn::OrAnd(signed_odd, hn::ShiftRight<8>(even.signs), half(0x0080)));
  }

  static HWY_INLINE bool all_equal(const Pack& a, const Pack& b) {
    const hn::ScalableTag<float> d;
    return hn::AllTrue(
        d, hn::And(hn::And(hn::Eq(a.v0, b.v0), hn::Eq(a.v1, b.v1)), hn::And(hn::Eq(a.v2, b.v2), hn::Eq(a.v3, b.v3))));
  }

  // The result of one vector, if it is a usual case. kSources as in fold_range.
  template <class Op, bool kScaled, int kSources, class E>
  static HWY_INLINE bool combine_at(const E* const* from, int source_count, std::size_t at, const Scalar* scales,
                                    Words& result) {
    // Sums of elements may stay too small, and so may one factor of two: nothing is lost.
    constexpr bool kPair = std::is_same_v<Op, Multiply> && kSources == 2;
    constexpr bool kShrunk = (std::is_same_v<Op, Add> && !kScaled) || kPair;
    const hn::ScalableTag<std::uint8_t> d8;
    const auto magnitude_bits = hn::Set(d8, F::kMagnitude);
    auto largest = hn::Zero(d8);
    Pack value;
    const int n = kSources > 0 ? kSources : source_count;
    for (int s = 0; s < n; ++s) {
      const Words w = load_words(from[s] + at);
      largest = hn::Max(largest, hn::And(hn::BitCast(d8, w), magnitude_bits));
      Pack p = open(w);
      if constexpr (kScaled) {
        // Growing is exact, so that both multiplications may be one, where it has room.
        const float by = scalar_for<float>(scales[s]) * std::bit_cast<float>((254u - F::kBias) << 23);
        if (!(std::fabs(by) <= std::numeric_limits<float>::max())) return false;
        p = multiply(p, hn::Set(hn::ScalableTag<float>(), by));
      } else if (!kShrunk || (kPair && s == 1)) {
        p = grow(p);
      }
      value = s == 0 ? p : combine<float, Op>(value, p);
    }
    if (!hn::AllTrue(d8, hn::Eq(hn::Min(largest, hn::Set(d8, F::kFirstSpecial - 1)), largest))) return false;
    if constexpr (kShrunk) {
      result = close(value);
    } else {
      const Pack shrunk = shrink(value);
      if (!all_equal(grow(shrunk), value)) return false;
      result = close(shrunk);
    }
    return true;
  }
};

// Every 32-bit word holds four elements.
template <class E, class F>
struct Float8Lanes {
  using Usual = Shrunk<F>;
  using Element = E;
  using Number = float;
  using Pack = PackOf<Floats, 4>;
  static constexpr int kUnroll = 1;

  static HWY_INLINE Pack load(const E* from) {
    const Words w = load_words(from);
    return {widen_words<F>(hn::ShiftLeft<24>(w)), widen_words<F>(hn::ShiftLeft<16>(w)),
            widen_words<F>(hn::ShiftLeft<8>(w)), widen_words<F>(w)};
  }
  template <bool kStream>
  static HWY_INLINE void store(const Pack& p, E* to) {
    const Words low = hn::Or(narrow_words<F>(p.v0), hn::ShiftLeft<8>(narrow_words<F>(p.v1)));
    const Words high = hn::Or(hn::ShiftLeft<16>(narrow_words<F>(p.v2)), hn::ShiftLeft<24>(narrow_words<F>(p.v3)));
    put_words<kStream>(hn::Or(low, high), to);
  }
};

// Narrow floats in the order of their values, as signed integers: -0 below +0, and every NaN where `Op` finds it first.
// Minima and maxima need no conversion to float.
template <class E, class Bits, std::uint32_t kInfinity, class Op>
struct OrderedLanes {
  using Element = E;
  using Number = Bits;
  using Pack = PackOf<Lanes<Bits>, 1>;
  static constexpr int kUnroll = 2;
  static constexpr Bits kMagnitude = std::numeric_limits<Bits>::max();

  static HWY_INLINE Lanes<Bits> flip(Lanes<Bits> v) {
    const hn::ScalableTag<Bits> d;
    return hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Xor(v, hn::Set(d, kMagnitude)), v);
  }
  static HWY_INLINE Pack load(const E* from) {
    const hn::ScalableTag<Bits> d;
    const auto v = hn::LoadU(d, reinterpret_cast<const Bits*>(from));
    const auto is_nan = hn::Gt(hn::And(v, hn::Set(d, kMagnitude)), hn::Set(d, static_cast<Bits>(kInfinity)));
    const Bits first = std::is_same_v<Op, Minimum> ? std::numeric_limits<Bits>::min() : kMagnitude;
    return {hn::IfThenElse(is_nan, hn::Set(d, first), flip(v))};
  }
  template <bool kStream>
  static HWY_INLINE void store(const Pack& p, E* to) {
    put<kStream>(flip(p.v0), reinterpret_cast<Bits*>(to));
  }
};

}  // namespace weft::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET != HWY_SCALAR
#endif  // per-target include guard
