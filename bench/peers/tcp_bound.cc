// The least time two processes need to exchange bytes by plain sockets: no frames, no checksums, no arithmetic.
//   tcp_bound listen ADDRESS PORT | tcp_bound connect ADDRESS PORT   SIZE...
// Per size, as the connecting side sees it, one line: size, microseconds for an exchange (each side sends and receives
// that many bytes at once), microseconds for one way (half of a message to and fro). Neither side sleeps.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

// Sends and receives at once, without sleeping.
void exchange(int fd, const char* out, std::size_t to_send, char* in, std::size_t to_receive) {
  while (to_send > 0 || to_receive > 0) {
    if (to_send > 0) {
      const ssize_t n = send(fd, out, to_send, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN) fail("send");
      if (n > 0) out += n, to_send -= static_cast<std::size_t>(n);
    }
    if (to_receive > 0) {
      const ssize_t n = recv(fd, in, to_receive, MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN)) fail("recv");
      if (n > 0) in += n, to_receive -= static_cast<std::size_t>(n);
    }
  }
}

int connection(bool listens, const char* address, const char* port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  inet_pton(AF_INET, address, &at.sin_addr);
  const int on = 1;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (listens) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || listen(fd, 1) != 0) fail("listen");
    fd = accept(fd, nullptr, nullptr);
  } else {
    while (connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) {
      close(fd);
      usleep(10000);
      fd = socket(AF_INET, SOCK_STREAM, 0);
    }
  }
  if (fd < 0) fail("accept");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

// Median seconds of one `step` over some runs of equal numbers of steps on both sides.
template <class Step>
double median(std::size_t bytes, Step&& step) {
  const int each =
      static_cast<int>(std::clamp<std::size_t>((std::size_t{8} << 20) / std::max<std::size_t>(bytes, 1), 3, 2000));
  std::vector<double> times;
  for (int run = 0; run < 15; ++run) {
    const auto start = Clock::now();
    for (int i = 0; i < each; ++i) step();
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count() / each);
  }
  std::nth_element(times.begin(), times.begin() + 7, times.end());
  return times[7];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const bool listens = std::strcmp(argv[1], "listen") == 0;
  const int fd = connection(listens, argv[2], argv[3]);
  for (int i = 4; i < argc; ++i) {
    const std::size_t bytes = std::strtoull(argv[i], nullptr, 10);
    std::vector<char> out(bytes, 1), in(bytes);
    const double both = median(bytes, [&] { exchange(fd, out.data(), bytes, in.data(), bytes); });
    const double trip = median(bytes, [&] {
      if (!listens) exchange(fd, out.data(), bytes, nullptr, 0);
      exchange(fd, nullptr, 0, in.data(), bytes);
      if (listens) exchange(fd, out.data(), bytes, nullptr, 0);
    });
    if (!listens) std::printf("%zu\t%.3f\t%.3f\n", bytes, both * 1e6, trip * 5e5), std::fflush(stdout);
  }
}
