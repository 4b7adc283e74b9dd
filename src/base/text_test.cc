#include "base/text.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(ParseBytes, ReadsBinaryUnitsAsNcclTestsDo) {
  EXPECT_EQ(parse_bytes("8").value(), 8);
  EXPECT_EQ(parse_bytes("8B").value(), 8);
  EXPECT_EQ(parse_bytes("64K").value(), 64 * 1024);
  EXPECT_EQ(parse_bytes("64k").value(), 64 * 1024);
  EXPECT_EQ(parse_bytes("1MiB").value(), 1 << 20);
  EXPECT_EQ(parse_bytes("1Mi").value(), 1 << 20);
  EXPECT_EQ(parse_bytes("1G").value(), 1 << 30);
  EXPECT_EQ(parse_bytes("1.5G").value(), 3 << 29);
  EXPECT_EQ(parse_bytes("0.5K").value(), 512);
}

TEST(ParseBytes, ReadsDecimalUnitsAsCoreutilsDo) {
  EXPECT_EQ(parse_bytes("1kB").value(), 1000);
  EXPECT_EQ(parse_bytes("1MB").value(), 1'000'000);
  EXPECT_EQ(parse_bytes("2.5GB").value(), 2'500'000'000);
  EXPECT_EQ(parse_bytes("1TB").value(), 1'000'000'000'000);
  EXPECT_EQ(parse_bytes("1e6").value(), 1'000'000);
}

TEST(ParseBytes, ReadsWhatFormatBytesPrints) {
  for (const Bytes bytes : {Bytes{0}, Bytes{1000}, Bytes{65536}, Bytes{3} << 19, Bytes{7} << 40})
    EXPECT_EQ(parse_bytes(format_bytes(bytes)).value(), bytes) << format_bytes(bytes);
}

TEST(ParseBytes, NamesTheTextItCannotRead) {
  for (const char* text : {"",    " ",    "abc", "K",   "1X",  "-1", "-0.5M", "1.5",         "0.3K",
                           "1MM", "1KiK", "1Q",  "nan", "inf", "1e", "1e30",  "9999999999G", "99999999999999999999",
                           "8 ",  "1  M"}) {
    auto r = parse_bytes(text);
    ASSERT_FALSE(r.has_value()) << text;
    EXPECT_NE(r.error().message.find(text), std::string::npos);
    EXPECT_EQ(r.error().blame, Blame::kInput);
  }
}

TEST(ParseBytes, RefusesBits) {
  EXPECT_EQ(parse_bytes("1Mb").error().message,
            "size '1Mb': b is a bit; 1M and 1MiB are 1048576 bytes, 1MB is 1000000");
  EXPECT_FALSE(parse_bytes("8b"));
}

TEST(ParseMessage, NamesTheOption) {
  EXPECT_EQ(parse_message("--bytes", "1X").error().message,
            "--bytes: size '1X' is not a number of bytes such as 8, 64K, 1M or 1G");
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
