#include "model/sim/flow/pair_table.h"

#include <gtest/gtest.h>

namespace weft::sim {
namespace {

TEST(PairTable, KeepsTheNumbersOfAllPairsAndStrands) {
  constexpr Rank kRanks = 40;
  PairTable table;
  EXPECT_LT(table.at(0, 0, 0), 0);
  int count = 0;
  for (Rank from = 0; from < kRanks; ++from)
    for (Rank to = 0; to < kRanks; ++to)
      for (int strand = 0; strand < 3; ++strand) table.at(from * 3000, to * 3000, strand) = count++;
  count = 0;
  for (Rank from = 0; from < kRanks; ++from)
    for (Rank to = 0; to < kRanks; ++to)
      for (int strand = 0; strand < 3; ++strand) ASSERT_EQ(table.at(from * 3000, to * 3000, strand), count++);
  EXPECT_LT(table.at(1, 0, 0), 0);
}

}  // namespace
}  // namespace weft::sim
