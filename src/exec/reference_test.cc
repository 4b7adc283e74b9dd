#include "exec/reference.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "weft/communicator.h"

namespace weft::exec {
namespace {

template <class T>
Expected expected(ReduceOp op, const std::vector<T>& x, Rounded rounded = Rounded::kEveryStep) {
  return reference(data_type_of<T>(), op, std::as_bytes(std::span(x)), {}, rounded);
}

template <class T>
bool accepts(const Expected& e, T got) {
  return acceptable(data_type_of<T>(), &got, e);
}

// 1 + 2^-8 lies between the bfloat16 numbers 1 and 1 + 2^-7. One rounding may err by 2^-8 of the sum: both neighbours
// are acceptable, the next ones, which are more than 2^-7 away, are not.
TEST(Reference, OneRoundingReachesTheNeighboursOnly) {
  const Expected e = expected(ReduceOp::kSum, std::vector{Bfloat16(1), Bfloat16(0x1p-8f)}, Rounded::kOnce);
  EXPECT_EQ(e.value, 1 + 0x1p-8);
  EXPECT_TRUE(accepts(e, Bfloat16(1)));
  EXPECT_TRUE(accepts(e, Bfloat16(1 + 0x1p-7f)));
  EXPECT_FALSE(accepts(e, Bfloat16(1 + 0x1p-6f)));
  EXPECT_FALSE(accepts(e, Bfloat16(1 - 0x1p-7f)));
}

// Eight ones in fp8 e5m2, u = 2^-3, are 8; seven roundings: (1 + 2^-3)^7 - 1 = 1.28 times 8. Rounded once: 2^-3
// times 8.
TEST(Reference, TheBoundGrowsWithRanksAndRoundings) {
  const std::vector<Float8E5M2> ones(8, Float8E5M2(1));
  const Expected often = expected(ReduceOp::kSum, ones), once = expected(ReduceOp::kSum, ones, Rounded::kOnce);
  EXPECT_NEAR(often.high, 8 * 2.2807, 1e-2);
  EXPECT_NEAR(once.high, 8 * 1.125, 1e-4);
  EXPECT_TRUE(accepts(often, Float8E5M2(16)));
  EXPECT_FALSE(accepts(once, Float8E5M2(16)));
}

// (n - 1) u Σ|x| to first order: 2^-53 for two doubles.
TEST(Reference, DoublesHaveABoundOfTheirOwnPrecision) {
  const Expected e = expected(ReduceOp::kSum, std::vector{1.0, 0x1p-52});
  EXPECT_TRUE(accepts(e, 1 + 0x1p-52));
  EXPECT_FALSE(accepts(e, 1 + 0x1p-50));
}

TEST(Reference, InfinityIsAcceptableExactlyWhereThePartialResultsMayBeTooLarge) {
  const float inf = std::numeric_limits<float>::infinity();
  const Expected finite = expected(ReduceOp::kSum, std::vector{Float16(30000), Float16(30000)});
  EXPECT_FALSE(accepts(finite, Float16(inf)));
  const Expected large = expected(ReduceOp::kSum, std::vector{Float16(60000), Float16(60000)});
  EXPECT_TRUE(accepts(large, Float16(inf)));
  EXPECT_FALSE(accepts(large, Float16(65504)));
  EXPECT_FALSE(accepts(large, Float16(-inf)));
  // Another order adds 60000 + 60000 first.
  const Expected order = expected(ReduceOp::kSum, std::vector{Float16(60000), Float16(-60000), Float16(60000)});
  EXPECT_TRUE(accepts(order, Float16(60000)));
  EXPECT_TRUE(accepts(order, Float16(inf)));
}

TEST(Reference, WithoutInfinityTooLargeIsTheLargest) {
  const Expected e = expected(ReduceOp::kSum, std::vector{Float8E4M3(448), Float8E4M3(448)});
  EXPECT_TRUE(accepts(e, Float8E4M3(448)));
  EXPECT_FALSE(accepts(e, Float8E4M3(256)));
  EXPECT_FALSE(accepts(e, Float8E4M3(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Reference, NaNIsDemandedWhereIeeeGivesOne) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAvg}) {
    const Expected e = expected(op, std::vector{1.0f, nan});
    EXPECT_TRUE(accepts(e, nan));
    EXPECT_FALSE(accepts(e, 1.0f));
  }
  EXPECT_FALSE(accepts(expected(ReduceOp::kSum, std::vector{inf, -inf}), inf));
  EXPECT_TRUE(accepts(expected(ReduceOp::kSum, std::vector{inf, -inf}), nan));
  EXPECT_TRUE(accepts(expected(ReduceOp::kProd, std::vector{inf, 0.0f}), nan));
  EXPECT_TRUE(accepts(expected(ReduceOp::kMin, std::vector{inf, -inf}), -inf));
}

TEST(Reference, MinimaKnowTheSignOfZero) {
  const Expected e = expected(ReduceOp::kMin, std::vector{0.0f, -0.0f});
  EXPECT_TRUE(accepts(e, -0.0f));
  EXPECT_FALSE(accepts(e, 0.0f));
}

TEST(Reference, IntegersWrapAndAveragesAreCutTowardsZero) {
  EXPECT_TRUE(accepts(expected(ReduceOp::kAvg, std::vector<std::int8_t>{-7, 0}), std::int8_t{-3}));
  // 100 + 100 = 200, as int8 -56.
  EXPECT_TRUE(accepts(expected(ReduceOp::kAvg, std::vector<std::int8_t>{100, 100}), std::int8_t{-28}));
  EXPECT_TRUE(accepts(expected(ReduceOp::kAvg, std::vector<std::uint8_t>{100, 100}), std::uint8_t{100}));
  EXPECT_FALSE(accepts(expected(ReduceOp::kSum, std::vector<std::int64_t>{1, 2}), std::int64_t{4}));
  EXPECT_TRUE(accepts(expected(ReduceOp::kProd, std::vector<std::uint16_t>{65535, 65535}), std::uint16_t{1}));
}

}  // namespace
}  // namespace weft::exec
