#include "move/transfer/file_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

namespace weft::transfer {
namespace {

class FileIoBy : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    fd = mkstemp(path);
    ASSERT_GE(fd, 0);
    io = std::move(*FileIo::open(GetParam()));
  }
  void TearDown() override {
    close(fd);
    unlink(path);
  }
  char path[32] = "/tmp/weft-file-XXXXXX";
  int fd = -1;
  std::unique_ptr<FileIo> io;
};

// 3,000 pieces of 1 to 5,000 bytes, more than are under way at once, in any order.
TEST_P(FileIoBy, PiecesOfAllSizesAreWrittenAndReadInAnyOrder) {
  std::mt19937 random(11);
  std::vector<FileIo::Piece> pieces(3000);
  Bytes at = 0;
  for (auto& piece : pieces) {
    piece = {.fd = fd, .bytes = static_cast<Bytes>(1 + random() % 5000), .offset = at, .writes = true};
    at += piece.bytes;
  }
  std::vector<std::byte> written(static_cast<std::size_t>(at)), read(written.size());
  for (std::byte& b : written) b = static_cast<std::byte>(random());
  for (auto& piece : pieces) piece.memory = written.data() + piece.offset;
  std::shuffle(pieces.begin(), pieces.end(), random);
  const Status wrote = io->run(pieces);
  ASSERT_TRUE(wrote) << wrote.error().message << " by " << io->how();
  for (auto& piece : pieces) {
    piece.memory = read.data() + piece.offset;
    piece.writes = false;
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  ASSERT_TRUE(io->run(pieces));
  EXPECT_EQ(read, written);
  EXPECT_TRUE(io->run({}));
}

TEST_P(FileIoBy, AFileThatIsTooShortOrAFullDiskIsOneErrorAndTheNextRunIsGood) {
  std::vector<std::byte> memory(8192);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  const FileIo::Piece good{fd, memory.data(), 4096, 0, false}, beyond{fd, memory.data(), 4096, 8192, false};
  const Status read = io->run(std::vector{good, beyond, good});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "reading 4096 B at 8192: the file ends there");
  ASSERT_TRUE(io->run(std::vector{good}));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status write = io->run(std::vector<FileIo::Piece>{{fd, memory.data(), 4096, 4096, true}});
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  ASSERT_FALSE(write);
  EXPECT_EQ(write.error().code, Code::kNoResources) << write.error().message;
  EXPECT_EQ(io->run(std::vector<FileIo::Piece>{{-1, memory.data(), 16, 0, false}}).error().message,
            "reading 16 B at 0: Bad file descriptor");
}

INSTANTIATE_TEST_SUITE_P(Kernel, FileIoBy, testing::Values(false, true),
                         [](const auto& info) { return std::string(info.param ? "Threads" : "Uring"); });

}  // namespace
}  // namespace weft::transfer
