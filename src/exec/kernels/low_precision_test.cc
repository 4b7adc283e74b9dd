#include "weft/low_precision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace weft {
namespace {

// The value of a code by the definition of the format: (-1)^s 2^(e-bias) 1.m, or 2^(1-bias) 0.m.
double by_definition(unsigned code, int exponent_bits, int mantissa_bits, bool infinity) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const unsigned m = code & ((1u << mantissa_bits) - 1);
  const unsigned e = code >> mantissa_bits & ((1u << exponent_bits) - 1);
  const bool negative = (code >> (mantissa_bits + exponent_bits) & 1) != 0;
  const unsigned last = (1u << exponent_bits) - 1, all = (1u << mantissa_bits) - 1;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  double v = e == 0 ? std::ldexp(m, 1 - bias - mantissa_bits)
                    : std::ldexp((1u << mantissa_bits) + m, static_cast<int>(e) - bias - mantissa_bits);
  if (e == last && infinity) v = m == 0 ? std::numeric_limits<double>::infinity() : nan;
  if (e == last && m == all) v = nan;
  return negative ? -v : v;
}

template <class T>
void expect_every_value(int bits, int exponent_bits, int mantissa_bits, bool infinity) {
  for (unsigned code = 0; code < 1u << bits; ++code) {
    const T t = T::from_bits(static_cast<decltype(T::bits)>(code));
    const float got = static_cast<float>(t);
    const double expected = by_definition(code, exponent_bits, mantissa_bits, infinity);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got)) << code;
      EXPECT_TRUE(std::isnan(static_cast<float>(T(got)))) << code;
    } else {
      EXPECT_EQ(got, expected) << code;
      if (!std::isinf(expected)) {
        EXPECT_EQ(T(got), t) << code;  // back: the same bits, -0 included
      }
    }
  }
}

TEST(LowPrecision, EveryValueIsThatOfTheFormatAndComesBack) {
  expect_every_value<Float16>(16, 5, 10, true);
  expect_every_value<Bfloat16>(16, 8, 7, true);
  expect_every_value<Float8E4M3>(8, 4, 3, false);
  expect_every_value<Float8E5M2>(8, 5, 2, true);
}

// Between two neighbours: below the middle down, above it up, the middle itself to the even one.
template <class T>
void expect_nearest(unsigned codes) {
  for (unsigned code = 0; code + 1 < codes; ++code) {
    const T low = T::from_bits(static_cast<decltype(T::bits)>(code));
    const T high = T::from_bits(static_cast<decltype(T::bits)>(code + 1));
    const float a = static_cast<float>(low), b = static_cast<float>(high);
    if (!std::isfinite(b)) break;
    const float middle = a / 2 + b / 2;
    if (middle == a || middle == b) continue;  // bfloat16's least subnormals: float has nothing in between
    EXPECT_EQ(T(middle), code % 2 == 0 ? low : high) << code;
    EXPECT_EQ(T(std::nextafter(middle, a)), low) << code;
    EXPECT_EQ(T(std::nextafter(middle, b)), high) << code;
    EXPECT_EQ(static_cast<float>(T(-middle)), -static_cast<float>(T(middle))) << code;
  }
}

TEST(LowPrecision, FloatsAreRoundedToTheNearestAndTiesToEven) {
  expect_nearest<Float16>(1 << 15);
  expect_nearest<Bfloat16>(1 << 15);
  expect_nearest<Float8E4M3>(1 << 7);
  expect_nearest<Float8E5M2>(1 << 7);
}

TEST(LowPrecision, WhatIsTooLargeBecomesInfinityOrWithoutOneTheLargest) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(Float16(65519.99f)), 65504);  // less than half a step above the largest
  EXPECT_EQ(static_cast<float>(Float16(65520.0f)), inf);
  EXPECT_EQ(static_cast<float>(Bfloat16(3.4e38f)), inf);
  EXPECT_EQ(static_cast<float>(Float8E5M2(61439.0f)), 57344);
  EXPECT_EQ(static_cast<float>(Float8E5M2(-61440.0f)), -inf);
  EXPECT_EQ(static_cast<float>(Float8E4M3(465.0f)), 448);
  EXPECT_EQ(static_cast<float>(Float8E4M3(1e30f)), 448);
  EXPECT_EQ(static_cast<float>(Float8E4M3(-inf)), -448);
}

#if defined(__FLT16_MAX__)
TEST(LowPrecision, HalfAgreesWithTheCompilersOwnOnAThousandthOfAllFloats) {
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 997) {
    const auto f = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (f != f) continue;
    const auto half = static_cast<_Float16>(f);
    std::uint16_t code;
    std::memcpy(&code, &half, sizeof(code));
    ASSERT_EQ(Float16(f).bits, code) << f;
  }
}
#endif

}  // namespace
}  // namespace weft
