#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "weft/transfer.h"

namespace weft::transfer {
namespace {

constexpr std::int64_t kSize = 1 << 20, kPage = 4096;

Agent agent(const std::string& name) { return Agent::open({.name = name}).value(); }

void fill(const Registration& r, int seed) {
  for (std::int64_t i = 0; i < r.bytes; ++i) r.data[i] = static_cast<std::byte>((i * 7 + seed * 31) % 251);
}

TEST(TransferFiles, AFileIsReadAndWrittenAsTheRemoteSide) {
  char path[] = "/tmp/weft-transfer-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, kSize), 0);
  {
    Agent a = agent("a");
    const Registration memory = *a.allocate(kSize);
    const auto file = a.add_file(path);
    ASSERT_TRUE(file) << file.error().message;
    fill(memory, 3);
    const std::vector<std::byte> kept(memory.data, memory.data + kSize);
    const Prepared l = *a.prepare("", std::vector<Rows>{{memory.region, 0, kPage, kPage, kSize / kPage}});
    const Prepared f = *a.prepare("", std::vector<Rows>{{file->region, 0, kPage, kPage, kSize / kPage}});
    auto write = a.make(Op::kWrite, l, f), read = a.make(Op::kRead, l, f);
    ASSERT_TRUE(write && read);
    ASSERT_TRUE(a.post(*write));
    ASSERT_EQ(a.wait(*write), State::kDone) << write->error().message;
    std::memset(memory.data, 0, kSize);
    ASSERT_TRUE(a.post(*read));
    ASSERT_EQ(a.wait(*read), State::kDone);
    EXPECT_EQ(std::memcmp(kept.data(), memory.data, kSize), 0);
    ASSERT_EQ(ftruncate(fd, 100), 0);
    ASSERT_TRUE(a.post(*read));
    ASSERT_EQ(a.wait(*read), State::kFailed);
    EXPECT_EQ(read->error().message.find(fmt::format("file {}: reading ", path)), 0U) << read->error().message;
    EXPECT_NE(read->error().message.find(": the file ends there"), std::string::npos) << read->error().message;
    EXPECT_FALSE(a.add_file("/nonexistent/file"));
  }
  close(fd);
  unlink(path);
}

TEST(TransferFiles, AFileThatIsShorterThanItsRegionGivesNoZerosAndIsExtendedByWritesOnly) {
  char path[] = "/tmp/weft-transfer-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_EQ(write(fd, "abc", 3), 3);
  {
    Agent a = agent("a");
    const Registration memory = *a.allocate(kPage);
    const auto whole = a.add_file(path, 0, kPage);
    ASSERT_TRUE(whole) << whole.error().message;
    EXPECT_EQ(whole->bytes, kPage);
    const auto bytes_of_file = [&] { return lseek(fd, 0, SEEK_END); };
    EXPECT_EQ(bytes_of_file(), 3);
    const auto moved = [&](Op op, const Registration& file) {
      const Prepared l = *a.prepare("", std::vector<Rows>{{memory.region, 0, kPage, kPage, 1}});
      const Prepared f = *a.prepare("", std::vector<Rows>{{file.region, 0, kPage, kPage, 1}});
      auto request = *a.make(op, l, f);
      EXPECT_TRUE(a.post(request));
      return a.wait(request);
    };
    EXPECT_EQ(moved(Op::kRead, *whole), State::kFailed);
    EXPECT_EQ(bytes_of_file(), 3);
    const int reading = open(path, O_RDONLY);
    const auto read_only = a.add_open_file(reading, 0, kPage);
    close(reading);
    ASSERT_TRUE(read_only) << read_only.error().message;
    EXPECT_EQ(moved(Op::kWrite, *read_only), State::kFailed);
    EXPECT_EQ(bytes_of_file(), 3);
    EXPECT_EQ(moved(Op::kWrite, *whole), State::kDone);
    EXPECT_EQ(bytes_of_file(), kPage);
    EXPECT_EQ(moved(Op::kRead, *read_only), State::kDone);
    EXPECT_FALSE(a.add_open_file(-1));
  }
  close(fd);
  unlink(path);
}

}  // namespace
}  // namespace weft::transfer
