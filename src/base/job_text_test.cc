#include "base/job_text.h"

#include <bzlib.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>

#include "base/output_file.h"
#include "base/packed_text.h"
#include "base/text_file.h"

namespace weft {
namespace {

using namespace std::string_literals;

const std::string kText = "node3:17:99 [2] NCCL INFO Using network Socket\nsecond line\n";
constexpr std::uintmax_t kMost = 1 << 20;

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string xz(const std::string& text) {
  std::string out(text.size() + 1000, '\0');
  std::size_t used = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(text.data()),
                                    text.size(), reinterpret_cast<std::uint8_t*>(out.data()), &used, out.size()),
            LZMA_OK);
  out.resize(used);
  return out;
}

std::string bzip2(std::string text) {
  std::string out(text.size() + 1000, '\0');
  auto size = static_cast<unsigned>(out.size());
  EXPECT_EQ(BZ2_bzBuffToBuffCompress(out.data(), &size, text.data(), static_cast<unsigned>(text.size()), 9, 0, 0),
            BZ_OK);
  out.resize(size);
  return out;
}

std::string utf16(const std::string& text, bool big_endian) {
  std::string out;
  for (const char c : text) out += big_endian ? std::string{'\0', c} : std::string{c, '\0'};
  return out;
}

TEST(PackedText, IsUnpackedWhateverPackedIt) {
  for (const std::string& packed : {gzip(kText), zstd(kText), xz(kText), bzip2(kText)})
    EXPECT_EQ(unpacked("f", packed, kMost).value(), kText);
  EXPECT_EQ(unpacked("f", gzip(kText) + gzip(kText), kMost).value(), kText + kText) << "logs that were appended to";
  EXPECT_EQ(unpacked("f", kText, kMost).value(), kText);
}

TEST(PackedText, ThatIsCutOffOrTooLargeIsOneLine) {
  const std::string packed = gzip(kText);
  const auto cut = unpacked("a.gz", packed.substr(0, packed.size() / 2), kMost);
  ASSERT_FALSE(cut);
  EXPECT_NE(cut.error().message.find("a.gz: the gzip file is cut off"), std::string::npos) << cut.error().message;
  const auto large = unpacked("b.zst", zstd(std::string(3 << 20, 'x')), kMost);
  ASSERT_FALSE(large);
  EXPECT_NE(large.error().message.find("b.zst: unpacked it has more than the 1 MiB"), std::string::npos);
  std::string broken = bzip2(kText);
  broken[broken.size() / 2] ^= 0x55;
  EXPECT_FALSE(unpacked("c.bz2", broken, kMost));
}

TEST(PackedText, ArchivesAreRefusedByName) {
  std::string tar(1024, '\0');
  tar.replace(257, 5, "ustar");
  EXPECT_NE(unpacked("l.tgz", gzip(tar), kMost).error().message.find("l.tgz: a tar archive"), std::string::npos);
  EXPECT_NE(unpacked("l.zip", "PK\x03\x04rest", kMost).error().message.find("l.zip: a zip archive"), std::string::npos);
}

TEST(PackedText, Utf16BecomesUtf8WithAndWithoutAMark) {
  EXPECT_EQ(unpacked("f", "\xff\xfe" + utf16(kText, false), kMost).value(), kText);
  EXPECT_EQ(unpacked("f", "\xfe\xff" + utf16(kText, true), kMost).value(), kText);
  EXPECT_EQ(unpacked("f", utf16(kText, false), kMost).value(), kText);
  EXPECT_EQ(unpacked("f", utf16(kText, true), kMost).value(), kText);
  EXPECT_EQ(unpacked("f", "\xef\xbb\xbf" + kText, kMost).value(), kText);
  EXPECT_EQ(unpacked("f", "\xff\xfe\x3d\xd8\x00\xde"s, kMost).value(), "\xf0\x9f\x98\x80") << "a pair of halves";
  const std::string pickle("\x80\x02}q\x00X\x02\x00\x00\x00pgq\x01K\x00s.", 18);
  EXPECT_EQ(unpacked("f", pickle, kMost).value(), pickle) << "binary data stays as it is";
}

TEST(JobText, EachLaunchersPrefixIsTakenOff) {
  const std::string line = "n7:41:88 [3] NCCL WARN Net : something";
  for (const std::string prefix :
       {"[pod/llm-pretrain-worker-5/main] ", "trainer-12  | ", "rank_0 | ", "2026-02-03T04:05:06.789012345Z stderr F ",
        "2026-02-03T04:05:06Z stdout P ", "2026-02-03 04:05:06,789 INFO ", "[2026-02-03 04:05:06] ", "04:05:06 ",
        "[04:05:06] ", "(launcher) ", "(RayWorker pid=31, ip=10.9.8.7) ", "[1,12]<stderr>:", "12: ", "[rank12]: ",
        "\x1b[36m", "2026-02-03T04:05:06+02:00 ", "[pod/a-0/b] [rank5]: ", "2026/02/03 04:05:06 "})
    EXPECT_EQ(strip_launcher(prefix + line).text, line) << prefix;
  EXPECT_EQ(strip_launcher("04:05:06  GPU0").text, " GPU0") << "what is indented behind a time stays so";
  EXPECT_EQ(strip_launcher("[pod/a-0/b] 2026-02-03T04:05:06Z [1,12]<stderr>:x").rank, 12);
}

TEST(JobText, WhatOnlyLooksLikeAPrefixStays) {
  for (const std::string line :
       {"       (B)    (elements)                       (us)", "GPU0\t X \tNV18\tSYS", "|   0  H100", "Name | Value",
        "2026 is a year", "04:05 is half a time", "[E321 02:07:08.4 P.cpp:607] x", "{\"log\": 3}",
        "8388608  2097152  float  sum  -1  95.1"})
    EXPECT_EQ(strip_launcher(line).text, line);
  EXPECT_EQ(without_prefixes("4: Switch\nSwitchName=s1 Nodes=n[1-4]\nSwitchName=s2 Nodes=n5\n"),
            "4: Switch\nSwitchName=s1 Nodes=n[1-4]\nSwitchName=s2 Nodes=n5\n")
      << "one line is no launcher";
}

TEST(JobText, PrefixesOfMostLinesAreTakenOffAndLinesKeepTheirNumbers) {
  EXPECT_EQ(without_prefixes("[pod/a-0/b] GPU0 X\n\n[pod/a-0/b] GPU1 Y\n"), "GPU0 X\n\nGPU1 Y\n");
}

TEST(JobText, ColoursTitlesAndCarriageReturnsGo) {
  EXPECT_EQ(plain_text("\x1b[1;31mred\x1b[0m\r\n\x1b]0;title\x07x\x1b(By\r\n"), "red\nxy\n");
  EXPECT_EQ(plain_text("cut \x1b[3"), "cut ");
}

TEST(JobText, LinesOfDockersDriverAreUnwrappedBehindTheirTime) {
  EXPECT_EQ(plain_text("{\"log\":\"a b\\n\",\"stream\":\"stdout\",\"time\":\"2026-02-03T04:05:06Z\"}\n"
                       "{\"log\":\"c\\r\\n\",\"stream\":\"stdout\"}\n"),
            "2026-02-03T04:05:06Z a b\nc\n");
  EXPECT_EQ(plain_text("{\"log\": 3}\n"), "{\"log\": 3}\n");
  EXPECT_EQ(plain_text("{\"timestamp\":\"2026-02-03T04:05:06Z\",\"severity\":\"INFO\",\"message\":\"d\"}\n"
                       "{\"event\":\"line\",\"data\":\"e\\n\"}\nplain\n{\"level\":\"error\",\"msg\":\"f\"}\n"),
            "2026-02-03T04:05:06Z d\ne\nplain\nERROR f\n");
  EXPECT_EQ(plain_text("{\"schema\": \"weft.x/1\", \"data\": [1]}\n"), "{\"schema\": \"weft.x/1\", \"data\": [1]}\n");
}

TEST(JobText, FilesAreReadThroughAllOfIt) {
  const auto file = std::filesystem::temp_directory_path() / ("weft_job_text_" + std::to_string(getpid()) + ".gz");
  ASSERT_TRUE(write_file(file.string(), gzip("\xff\xfe" + utf16("12: \x1b[32mGPU0 X\r\n13: GPU1 Y\r\n", false))));
  EXPECT_EQ(read_job_text(file).value(), "GPU0 X\nGPU1 Y\n");
  EXPECT_EQ(read_text_file(file).value(), "12: \x1b[32mGPU0 X\r\n13: GPU1 Y\r\n");
  std::filesystem::remove(file);
}

TEST(JobText, WorkersOfInferenceServersNameTheirRank) {
  EXPECT_EQ(strip_launcher("(VllmWorker rank=5 pid=71) ERROR 01-02 03:04:05 [x.py:1] y").rank, 5);
  EXPECT_EQ(strip_launcher("(Worker_TP2 pid=71) y").rank, 2);
  EXPECT_EQ(strip_launcher("(Worker_DP1_TP2 pid=71) y").rank, -1);  // two kinds of parallelism: no rank
  EXPECT_EQ(strip_launcher("[2026-02-24 14:09:34 TP11] y").rank, 11);
  EXPECT_EQ(strip_launcher("[2026-02-24 14:09:34 TP11] y").text, "y");
  EXPECT_EQ(strip_launcher("[2026-02-24 14:09:34 DP1 TP11 EP3] y").rank, -1);
}

TEST(JobText, LogsThatWereIndentedOrQuotedAsAWholeAreRead) {
  EXPECT_EQ(strip_launcher("    [1,3]<stderr>:oops").text, "oops");
  EXPECT_EQ(strip_launcher("    [1,3]<stderr>:oops").rank, 3);
  EXPECT_EQ(strip_launcher("> h:1:2 [0] NCCL WARN x").text, "h:1:2 [0] NCCL WARN x");
  EXPECT_EQ(strip_launcher("    [3] x").text, "    [3] x");
}

}  // namespace
}  // namespace weft
