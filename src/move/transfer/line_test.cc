#include "move/transfer/line.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "net/tcp/crc32c.h"

namespace weft::transfer {
namespace {

// A line to a peer that answers a read of 64 bytes with `bytes` of them; what lies behind the 64 is not the reader's.
struct Asked {
  explicit Asked(std::size_t bytes) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    const UniqueFd peer(ends[1]);
    const auto line = Line::over(UniqueFd(ends[0]));
    line->ask(
        {.ask = Ask::kRead, .bytes = 64}, {}, [&] { return memory.data(); },
        [&](const Answer&, bool whole) { good = whole; });
    const std::vector<std::byte> data(bytes, std::byte{7});
    const Answer answer{.checksum = net::tcp::crc32c(0, data.data(), data.size()),
                        .bytes = static_cast<std::int64_t>(bytes)};
    EXPECT_EQ(send(peer.get(), &answer, sizeof answer, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof answer));
    EXPECT_EQ(send(peer.get(), data.data(), data.size(), MSG_NOSIGNAL), static_cast<ssize_t>(data.size()));
    status = line->advance();
  }
  std::array<std::byte, 128> memory{};
  std::optional<bool> good;
  Status status;
};

TEST(Line, TakesAnAnswerOfTheBytesThatWereAskedFor) {
  const Asked asked(64);
  EXPECT_TRUE(asked.status) << asked.status.error().message;
  EXPECT_EQ(asked.good, true);
}

TEST(Line, AnAnswerLongerThanTheReadWritesNothingBehindIt) {
  const Asked asked(65);
  EXPECT_FALSE(asked.status);
  EXPECT_TRUE(
      std::all_of(asked.memory.begin() + 64, asked.memory.end(), [](std::byte b) { return b == std::byte{0}; }));
}

}  // namespace
}  // namespace weft::transfer
