#include "sim/flow/taker.h"

#include <gtest/gtest.h>

namespace weft::sim {
namespace {

constexpr Duration us(double n) { return Duration::microseconds(n); }

TEST(Taker, LetsThroughWhatComesNoFasterThanItTakes) {
  Taker taker;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(taker.take(us(1), 1, us(i)), Duration());
}

// A hundred at once: one is let through besides the one that is taken at once.
TEST(Taker, LetsOthersWaitForEachOther) {
  Taker taker;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(taker.take(us(1), 1, us(5)), us(std::max(0, i - 1)));
}

}  // namespace
}  // namespace weft::sim
