#include "api/calibrate/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "api/calibrate/cpus.h"

namespace weft::calibrate {
namespace {

using Clock = std::chrono::steady_clock;

// The two ends of a loopback connection. Owns: both.
struct Pair {
  int ends[2] = {-1, -1};

  Pair() {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof here;
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener >= 0 && ends[0] >= 0 && bind(listener, reinterpret_cast<sockaddr*>(&here), length) == 0 &&
        listen(listener, 1) == 0 && getsockname(listener, reinterpret_cast<sockaddr*>(&here), &length) == 0 &&
        connect(ends[0], reinterpret_cast<sockaddr*>(&here), length) == 0)
      ends[1] = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    close(listener);
    const int on = 1;
    for (const int end : ends) setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~Pair() {
    for (const int end : ends)
      if (end >= 0) close(end);
  }
  Pair(const Pair&) = delete;
  bool connected() const { return ends[1] >= 0; }
};

bool send_all(int fd, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = send(fd, data, bytes, MSG_NOSIGNAL);
    if (n <= 0) return false;
    data += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

// Looks without sleeping, as ranks do. Alone on a core, it lets the other side run.
bool receive_all(int fd, char* data, std::size_t bytes, bool alone) {
  while (bytes > 0) {
    const ssize_t n = recv(fd, data, bytes, alone ? 0 : MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
    if (n < 0) continue;
    data += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

void measure_tcp(Rates& rates) {
  constexpr int kRuns = 5, kTrips = 60;
  constexpr std::size_t kMessage = 64, kBlock = 256 << 10, kBlocks = 24;
  const std::vector<int> cpus = usable_cpus();
  const bool alone = cpus.size() < 2;
  Pair pair;
  if (!pair.connected()) return;
  std::vector<double> trip, stream;
  std::vector<char> there(kBlock, 1), here(kBlock);
  std::thread other([&] {
    pin_to(cpus[alone ? 0 : 1]);
    for (int run = 0; run < kRuns; ++run) {
      for (int i = 0; i < kTrips; ++i)
        if (!receive_all(pair.ends[1], there.data(), kMessage, alone) ||
            !send_all(pair.ends[1], there.data(), kMessage))
          return;
      for (std::size_t i = 0; i < kBlocks; ++i)
        if (!receive_all(pair.ends[1], there.data(), kBlock, alone)) return;
      if (!send_all(pair.ends[1], there.data(), kMessage)) return;
    }
  });
  std::thread self([&] {
    pin_to(cpus[0]);
    for (int run = 0; run < kRuns; ++run) {
      auto start = Clock::now();
      for (int i = 0; i < kTrips; ++i)
        if (!send_all(pair.ends[0], here.data(), kMessage) || !receive_all(pair.ends[0], here.data(), kMessage, alone))
          return;
      trip.push_back(std::chrono::duration<double>(Clock::now() - start).count() / (2 * kTrips));
      start = Clock::now();
      for (std::size_t i = 0; i < kBlocks; ++i)
        if (!send_all(pair.ends[0], here.data(), kBlock)) return;
      if (!receive_all(pair.ends[0], here.data(), kMessage, alone)) return;
      stream.push_back(static_cast<double>(kBlock * kBlocks) /
                       std::chrono::duration<double>(Clock::now() - start).count());
    }
  });
  self.join();
  if (trip.size() < kRuns || stream.size() < kRuns) shutdown(pair.ends[0], SHUT_RDWR);
  other.join();
  if (stream.empty()) return;
  rates.tcp = Duration::seconds(*std::min_element(trip.begin(), trip.end()));
  rates.tcp_connection = BytesPerSecond(*std::max_element(stream.begin(), stream.end()));
}

}  // namespace weft::calibrate
