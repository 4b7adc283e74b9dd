#include "base/free_list.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace weft {
namespace {

constexpr Bytes kLine = 64;

TEST(FreeList, TheSameCallsGiveTheSameOffsets) {
  FreeList a(128, 1 << 20, kLine), b(128, 1 << 20, kLine);
  std::mt19937 random(7);
  std::vector<Bytes> blocks;
  for (int i = 0; i < 2000; ++i) {
    if (!blocks.empty() && random() % 3 == 0) {
      const std::size_t victim = random() % blocks.size();
      EXPECT_TRUE(a.release(blocks[victim]));
      EXPECT_TRUE(b.release(blocks[victim]));
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(victim));
      continue;
    }
    const Bytes bytes = static_cast<Bytes>(random() % 3000), alignment = Bytes{1} << (random() % 12);
    const auto one = a.allocate(bytes, alignment), other = b.allocate(bytes, alignment);
    ASSERT_EQ(one, other);
    if (one) blocks.push_back(*one);
  }
}

TEST(FreeList, BlocksAreAlignedAndDisjointAndFreedSpaceGrowsTogether) {
  FreeList heap(0, 4096, kLine);
  const auto a = heap.allocate(100, 1), b = heap.allocate(1, 1024), c = heap.allocate(0, 8);
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(*b % 1024, 0);
  EXPECT_GE(*b, *a + 100);
  EXPECT_NE(*a, *c);
  EXPECT_EQ(heap.size_of(*a), 100);
  EXPECT_FALSE(heap.allocate(4096, 1));
  for (const auto& block : {a, b, c}) EXPECT_TRUE(heap.release(*block));
  EXPECT_EQ(heap.allocate(4096, 1), 0);
}

TEST(FreeList, WhatIsNotInUseCannotBeFreed) {
  FreeList heap(0, 4096, kLine);
  const auto a = heap.allocate(100, 1);
  EXPECT_FALSE(heap.release(*a + 8));
  EXPECT_TRUE(heap.release(*a));
  EXPECT_FALSE(heap.release(*a));
  EXPECT_FALSE(heap.size_of(*a));
}

TEST(FreeList, WhatIsCutOffABlockIsFreeAgain) {
  FreeList heap(0, 4096, kLine);
  const auto whole = heap.allocate(4096);
  heap.cut(*whole, 100);  // two lines of 64 bytes remain
  EXPECT_EQ(heap.size_of(*whole), 100);
  EXPECT_EQ(heap.allocate(4096 - 128), 128);
  heap.cut(*whole, 100);
  EXPECT_FALSE(heap.allocate(1));
  EXPECT_EQ(heap.release(*whole), 128);
}

TEST(FreeList, AnAbsurdSizeIsRefused) {
  FreeList heap(0, 4096, kLine);
  EXPECT_FALSE(heap.allocate(Bytes{1} << 62, 64));
}

}  // namespace
}  // namespace weft
