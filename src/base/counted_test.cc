#include "base/counted.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Counted, OneIsOneAndOthersAreSeveral) {
  EXPECT_EQ(counted(0, "row"), "0 rows");
  EXPECT_EQ(counted(1, "row"), "1 row");
  EXPECT_EQ(counted(2, "wrong element"), "2 wrong elements");
}

TEST(Counted, WordsEndAsEnglishHasThem) {
  EXPECT_EQ(counted(2, "switch"), "2 switches");
  EXPECT_EQ(counted(2, "leaf"), "2 leaves");
  EXPECT_EQ(counted(2, "remote access"), "2 remote accesses");
  EXPECT_EQ(counted(2, "entry"), "2 entries");
  EXPECT_EQ(counted(2, "day"), "2 days");
}

}  // namespace
}  // namespace weft
