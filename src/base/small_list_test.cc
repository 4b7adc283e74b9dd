#include "base/small_list.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using List = SmallList<int, 2>;

List counted(int n) {
  List l;
  for (int i = 0; i < n; ++i) l.push_back(i);
  return l;
}

TEST(SmallList, HoldsMoreValuesThanFitInline) {
  for (int n = 0; n <= 9; ++n) {
    const List l = counted(n);
    ASSERT_EQ(l.size(), static_cast<std::size_t>(n));
    EXPECT_EQ(l.empty(), n == 0);
    int expected = 0;
    for (const int v : l) EXPECT_EQ(v, expected++);
    EXPECT_EQ(expected, n);
  }
}

TEST(SmallList, IsAValue) {
  for (int n = 0; n <= 5; ++n) {
    const List original = counted(n);
    List copy = original;
    EXPECT_EQ(copy, original);
    copy.push_back(7);
    EXPECT_FALSE(copy == original);
    EXPECT_EQ(original.size(), static_cast<std::size_t>(n));
  }
}

TEST(SmallList, CanBeFilledAgainAfterClear) {
  List l = counted(5);
  l.clear();
  EXPECT_TRUE(l.empty());
  for (int n = 0; n < 4; ++n) l.push_back(10 + n);
  EXPECT_EQ(l, List(10, 11, 12, 13));
}

TEST(SmallList, IsMadeFromItsValues) {
  const List l(4, 5, 6);
  EXPECT_EQ(l.size(), 3u);
  EXPECT_EQ(l[0], 4);
  EXPECT_EQ(l[2], 6);
}

}  // namespace
}  // namespace weft
