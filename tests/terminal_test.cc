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

}  // namespace
}  // namespace weft::cli
