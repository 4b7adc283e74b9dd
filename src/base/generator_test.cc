#include "base/generator.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace weft {
namespace {

Generator<int> count_to(int n) {
  for (int i = 1; i <= n; ++i) co_yield i;
}

TEST(Generator, YieldsInOrderAndThenStaysAtTheEnd) {
  auto g = count_to(3);
  for (int i = 1; i <= 3; ++i) {
    const int* v = g.next();
    ASSERT_NE(v, nullptr);
    EXPECT_EQ(*v, i);
  }
  EXPECT_EQ(g.next(), nullptr);
  EXPECT_EQ(g.next(), nullptr);
}

TEST(Generator, AnEmptyOneEndsAtOnce) {
  EXPECT_EQ(count_to(0).next(), nullptr);
  EXPECT_EQ(Generator<int>().next(), nullptr);
}

Generator<std::string> steps_of(std::shared_ptr<int> started) {
  ++*started;
  co_yield std::string(100, 'a');  // a temporary: lives until the next call
  co_yield std::string("b");
}

TEST(Generator, RunsOnlyAsFarAsItIsAsked) {
  const auto started = std::make_shared<int>(0);
  auto g = steps_of(started);
  EXPECT_EQ(*started, 0);
  EXPECT_EQ(*g.next(), std::string(100, 'a'));
  EXPECT_EQ(*started, 1);
}

TEST(Generator, FreesWhatItHoldsWhenItIsDroppedHalfway) {
  const auto started = std::make_shared<int>(0);
  {
    auto g = steps_of(started);
    g.next();
    EXPECT_EQ(started.use_count(), 2);
  }
  EXPECT_EQ(started.use_count(), 1);
}

TEST(Generator, MovesWithItsPosition) {
  auto a = count_to(3);
  a.next();
  Generator<int> b = std::move(a);
  EXPECT_EQ(*b.next(), 2);
  Generator<int> c;
  c = std::move(b);
  EXPECT_EQ(*c.next(), 3);
}

}  // namespace
}  // namespace weft
