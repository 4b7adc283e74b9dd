#pragma once

#include <bit>
#include <cstdint>

// Floating-point numbers of 8 and 16 bits, for storage: they are calculated with as float.
//   Float16      IEEE binary16
//   Bfloat16     the upper half of a binary32
//   Float8E4M3   OCP 8-bit, "E4M3FN": no infinity, one NaN per sign, largest 448
//   Float8E5M2   OCP 8-bit: the upper half of a binary16, with infinities, largest 57344
// To float: exact. From float: rounded once, to nearest, ties to even. What is too large becomes infinity; e4m3 has
// none and takes ±448, as NVIDIA's conversions do. A NaN stays one. (Source: OCP 8-bit Floating Point Specification
// 1.0, 2023, section 5; PTX ISA, cvt.rn.satfinite.e4m3x2.f32.)
namespace weft {

namespace impl {

// A format of `kExponent` and `kMantissa` bits and a sign; kInfinity: the largest exponent means infinity and NaN, as
// in IEEE 754; otherwise only its largest mantissa means NaN.
template <int kExponentBits, int kMantissaBits, bool kHasInfinity>
struct NarrowFloat {
  static constexpr int kExponent = kExponentBits, kMantissa = kMantissaBits, kBits = 1 + kExponent + kMantissa;
  static constexpr bool kInfinity = kHasInfinity;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int kDropped = 23 - kMantissa;
  static constexpr std::uint32_t kMagnitude = (1u << (kBits - 1)) - 1;
  static constexpr std::uint32_t kFirstSpecial = kInfinity ? kMagnitude >> kMantissa << kMantissa : kMagnitude;
  // What a finite value that is too large becomes.
  static constexpr std::uint32_t kOverflow = kInfinity ? kFirstSpecial : kFirstSpecial - 1;
  static constexpr std::uint32_t kQuietNan = kInfinity ? kFirstSpecial | 1u << (kMantissa - 1) : kFirstSpecial;
  static constexpr std::uint32_t kLeastNormal = (127u - kBias + 1) << 23;  // as bits of a float
  // A float whose last bit is worth the format's least positive number: adding it rounds to a multiple of that.
  static constexpr std::uint32_t kMagic = (127u + 24 - kBias - kMantissa) << 23;
  static constexpr std::uint32_t kRebias = (127u - kBias) << 23;

  static constexpr float widen(std::uint32_t code) {
    const std::uint32_t sign = (code & (kMagnitude + 1)) << (32 - kBits);
    const std::uint32_t magnitude = code & kMagnitude;
    if (magnitude >= kFirstSpecial) return std::bit_cast<float>(sign | 0x7f800000u | magnitude << kDropped);
    if (magnitude >> kMantissa != 0) return std::bit_cast<float>(sign | ((magnitude << kDropped) + kRebias));
    const float least = std::bit_cast<float>(kMagic - (23u << 23));
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * least));
  }

  static constexpr std::uint32_t narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 31 << (kBits - 1), magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | kQuietNan;
    if (magnitude < kLeastNormal)
      return sign |
             (std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kMagic)) - kMagic);
    const std::uint32_t even = magnitude >> kDropped & 1;
    const std::uint32_t code = (magnitude - kRebias + (1u << (kDropped - 1)) - 1 + even) >> kDropped;
    return sign | (code < kOverflow ? code : kOverflow);
  }
};

// The exponents of float and bfloat16 are the same, so that subnormals need no special care.
struct UpperHalf {
  static constexpr float widen(std::uint32_t code) { return std::bit_cast<float>(code << 16); }
  static constexpr std::uint32_t narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 31 << 15 | 0x7fc0u;
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  }
};

using Binary16 = NarrowFloat<5, 10, true>;
using E4M3 = NarrowFloat<4, 3, false>;
using E5M2 = NarrowFloat<5, 2, true>;

// Storage of a format. Comparison is of bits: -0 differs from +0, and a NaN equals itself.
template <class Format, class Bits>
struct Stored {
  Bits bits;

  constexpr Stored() = default;
  constexpr explicit Stored(float value) : bits(static_cast<Bits>(Format::narrow(value))) {}
  constexpr explicit operator float() const { return Format::widen(bits); }
  static constexpr Stored from_bits(Bits bits) {
    Stored s;
    s.bits = bits;
    return s;
  }
  constexpr bool operator==(const Stored&) const = default;
};

}  // namespace impl

using Float16 = impl::Stored<impl::Binary16, std::uint16_t>;
using Bfloat16 = impl::Stored<impl::UpperHalf, std::uint16_t>;
using Float8E4M3 = impl::Stored<impl::E4M3, std::uint8_t>;
using Float8E5M2 = impl::Stored<impl::E5M2, std::uint8_t>;

static_assert(sizeof(Float16) == 2 && sizeof(Bfloat16) == 2 && sizeof(Float8E4M3) == 1 && sizeof(Float8E5M2) == 1);

}  // namespace weft
