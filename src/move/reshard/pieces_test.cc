#include "move/reshard/pieces.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace weft::reshard {
namespace {

// Element by element.
bool none_twice(const std::vector<Pieces>& all) {
  std::vector<bool> seen(4096);
  for (const Pieces& p : all)
    for (std::int64_t i = 0; i < p.count; ++i)
      for (std::int64_t k = 0; k < p.length; ++k) {
        const auto at = static_cast<std::size_t>(p.begin + i * p.stride + k);
        if (seen[at]) return false;
        seen[at] = true;
      }
  return true;
}

TEST(Pieces, AreDisjointAsTheirElementsAre) {
  std::mt19937 random(1);
  const auto to = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(0, most)(random); };
  int apart = 0;
  for (int round = 0; round < 100'000; ++round) {
    std::vector<Pieces> all;
    const std::int64_t stride = 1 + to(7);
    for (std::int64_t n = 1 + to(3); n > 0; --n)
      all.push_back({to(40), 1 + to(3), to(3) == 0 ? 1 + to(9) : stride, 1 + to(4)});
    const bool expected = none_twice(all);
    ASSERT_EQ(disjoint(all), expected) << "round " << round;
    apart += expected;
  }
  EXPECT_GT(apart, 10'000);
  EXPECT_LT(apart, 90'000);
}

TEST(Pieces, BillionsAtEqualDistancesAreFewRectangles) {
  const std::int64_t rows = std::int64_t{1} << 40;
  EXPECT_TRUE(disjoint(std::vector<Pieces>{{0, 3, 8, rows}, {3, 5, 8, rows}}));
  EXPECT_FALSE(disjoint(std::vector<Pieces>{{0, 4, 8, rows}, {3, 5, 8, rows}}));
}

}  // namespace
}  // namespace weft::reshard
