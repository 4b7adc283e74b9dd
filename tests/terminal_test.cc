#include "apps/cli/terminal.h"

#include <gtest/gtest.h>

namespace weft::cli {
namespace {

TEST(Fitted, ALineThatFitsStaysAsItIs) { EXPECT_EQ(fitted("  a   b", 7), "  a   b"); }

TEST(Fitted, ARowsLastCellIsCutBelowItself) {
  EXPECT_EQ(fitted("  nvls   20.2 us  1.61x slower, mostly by latency", 36),
            "  nvls   20.2 us  1.61x slower,\n"
            "                  mostly by latency");
}

TEST(Fitted, ASentenceIsCutAtBlanksAndIndented) {
  EXPECT_EQ(fitted("# all_reduce of float sum on 8 ranks", 20), "# all_reduce of\n  float sum on 8\n  ranks");
}

TEST(Fitted, ColoursTakeNoColumnsAndCharactersOfUtf8One) {
  EXPECT_EQ(fitted("\x1b[31mabc\x1b[0m dé", 6), "\x1b[31mabc\x1b[0m dé");
  EXPECT_EQ(fitted("\x1b[31mabc\x1b[0m dé", 5), "\x1b[31mabc\x1b[0m\n  dé");
}

TEST(Fitted, AWordThatIsWiderStaysWhole) {
  EXPECT_EQ(fitted("see https://example.org/a/long/path", 12), "see\n  https://example.org/a/long/path");
}

TEST(ColumnBlocks, AWideTableHasItsColumnsBelowEachOtherWithTheNamesOfItsRows) {
  const std::string table =
      "      GPU0  GPU1  GPU2\n"
      "GPU0  X     NV1   NV2\n"
      "GPU1  NV1   X     NV1\n";
  EXPECT_EQ(in_column_blocks(table + "\nLegend\n", 22), table + "\nLegend\n");
  EXPECT_EQ(in_column_blocks(table + "\nLegend\n", 17),
            "      GPU0  GPU1\nGPU0  X     NV1\nGPU1  NV1   X\n\n"
            "      GPU2\nGPU0  NV2\nGPU1  NV1\n\nLegend\n");
}

}  // namespace
}  // namespace weft::cli
