#include "exec/recorder/rails.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace weft::recorder {
namespace {

constexpr double kGigabit = 1e9;

TEST(Rails, AnIdleLinkOfTheSameSpeedCostsHalfOfTheTime) {
  const RailUse use = use_of({{.interface = "eth0", .out = 1'000'000'000, .in = 250'000'000, .speed = 100 * kGigabit},
                              {.interface = "eth1", .speed = 100 * kGigabit}});
  EXPECT_TRUE(use.known);
  EXPECT_EQ(use.bytes, 1'000'000'000);
  EXPECT_DOUBLE_EQ(use.took, 0.08);
  EXPECT_DOUBLE_EQ(use.least, 0.04);
}

TEST(Rails, SharesByTheSpeedOfLinksLoseNothing) {
  const RailUse use = use_of({{.interface = "slow", .out = 100, .in = 1'000'000, .speed = 10 * kGigabit},
                              {.interface = "fast", .out = 4'000'000, .in = 100, .speed = 40 * kGigabit}});
  EXPECT_NEAR(use.took, use.least, 1e-12);
}

TEST(Rails, OfALinkWithoutAKnownSpeedNothingIsSaid) {
  EXPECT_FALSE(use_of({{.interface = "eth0", .out = 1, .speed = kGigabit}, {.interface = "tun0", .out = 1}}).known);
  EXPECT_FALSE(use_of({}).known);
  EXPECT_TRUE(with_idle({}).empty());
}

// A connection of this process to itself.
TEST(Rails, AreCountedByTheKernelForTheSocketsOfAProcess) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener.get(), generic, size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), generic, &size), 0);
  const UniqueFd from(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(from.get(), generic, size), 0);
  UniqueFd to(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  std::vector<char> bytes(100'000, 'x');
  std::size_t sent = 0, came = 0;
  while (came < bytes.size()) {
    if (sent < bytes.size()) sent += static_cast<std::size_t>(send(from.get(), bytes.data(), bytes.size() - sent, 0));
    came += static_cast<std::size_t>(recv(to.get(), bytes.data(), bytes.size(), 0));
  }
  const std::vector<Rail> rails = with_idle(rails_of(getpid()));
  ASSERT_FALSE(rails.empty());
  EXPECT_EQ(rails[0].interface, "lo");
  EXPECT_EQ(rails[0].connections, 2);
  EXPECT_GE(rails[0].in, 100'000);
  EXPECT_EQ(rails[0].speed, 0);  // a loopback has none
  const linger reset{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(setsockopt(to.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
  to = UniqueFd();  // the other end is gone
  EXPECT_GE(rails_of(getpid()).at(0).out, 100'000);
}

}  // namespace
}  // namespace weft::recorder
