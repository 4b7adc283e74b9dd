#include "net/tcp/splicer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <vector>

namespace weft::net::tcp {
namespace {

// A connection over loopback whose peer has closed its end already.
UniqueFd to_a_peer_that_left() {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM, 0)), mine(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in at{.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof at;
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  EXPECT_EQ(connect(mine.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
  const UniqueFd theirs(accept(listener.get(), nullptr, nullptr));
  return mine;
}

// The peer answers the first pages with a reset: the kernel has taken some, and yet raises the signal for the rest.
TEST(Pipe, ASocketThatThePeerHasClosedIsNoSignal) {
  const UniqueFd socket = to_a_peer_that_left();
  const auto pipe = Pipe::open();
  ASSERT_NE(pipe, nullptr);
  std::vector<std::byte> pages(256 << 10);
  const iovec all{pages.data(), pages.size()};
  ASSERT_TRUE(pipe->fill(&all, 1));
  EXPECT_EXIT(
      {
        ssize_t n = 0;
        while ((n = pipe->drain(socket.get())) > 0 && !pipe->empty()) {
        }
        _exit(n < 0 && errno == EPIPE ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weft::net::tcp
