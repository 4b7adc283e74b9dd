#include "base/text.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(ParseBytes, ReadsBinaryUnits) {
  EXPECT_EQ(parse_bytes("8").value(), 8);
  EXPECT_EQ(parse_bytes("64K").value(), 64 * 1024);
  EXPECT_EQ(parse_bytes("1MiB").value(), 1 << 20);
  EXPECT_EQ(parse_bytes("1G").value(), 1 << 30);
}

TEST(ParseBytes, NamesTheTextItCannotRead) {
  for (const char* text : {"", "abc", "1X", "-1", "1.5M", "9999999999G", "99999999999999999999"}) {
    auto r = parse_bytes(text);
    ASSERT_FALSE(r.has_value()) << text;
    EXPECT_NE(r.error().message.find(text), std::string::npos);
    EXPECT_EQ(r.error().blame, Blame::kInput);
  }
}

TEST(ParseMessage, EndsAtSixteenTebibytes) {
  EXPECT_EQ(parse_message("--max", "16T").value(), kMostMessage);
  EXPECT_EQ(parse_message("--max", "17592186044417").error().message, "--max 17592186044417 is more than 16T");
  EXPECT_FALSE(parse_message("--max", "9223372036854775808"));
}

TEST(FormatBytes, PicksTheLargestUnitThatDivides) {
  EXPECT_EQ(format_bytes(65536), "64 KiB");
  EXPECT_EQ(format_bytes(1000), "1000 B");
}

TEST(Duration, SaturatesInsteadOfWrapping) {
  EXPECT_EQ(Bytes{1} / BytesPerSecond(0), Duration::max());
  EXPECT_EQ(Duration::max() + Duration::seconds(1), Duration::max());
}

TEST(Shown, EscapesControlCharactersAndBytesThatAreNoUtf8) {
  EXPECT_EQ(shown("dgx-h100"), "dgx-h100");
  EXPECT_EQ(shown("Zürich \xe2\x82\xac \xf0\x9f\x98\x80"), "Zürich \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(shown("\x1b[31m\n"), "\\x1b[31m\\x0a");
  EXPECT_EQ(shown("\xc2\x9b"), "\\xc2\\x9b");           // CSI as a C1 control
  EXPECT_EQ(shown("\xff\xc0\xaf"), "\\xff\\xc0\\xaf");  // no UTF-8; an overlong '/'
  EXPECT_EQ(shown("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(shown("\xe2\x82"), "\\xe2\\x82");           // cut off
}

}  // namespace
}  // namespace weft
