// A stranger that floods ports of this host: many short connections per second, some held open without a word.
//
//   weft_flooder --rate N --silent N --seconds S (--port P | --listening [--but P])
//
// Opens --rate connections per second and resets each as soon as it stands; every fourth says 32 bytes of noise first.
// The first --silent connections are held open instead; one that the other side closes is replaced. --listening floods
// all TCP ports on which any process of this network namespace listens, in turns, as anybody can read them in
// /proc/net/tcp; --but leaves one out. Needs no rights. Prints one JSON line: connections attempted, established,
// unanswered within 200 ms, refused; silent connections held at the most and on average.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

struct Options {
  double rate = 13000, seconds = 60;
  std::size_t silent = 0;
  int port = 0, but = 0;
  bool listening = false;
};

constexpr auto kLook = 20ms;       // for new ports
constexpr auto kAnswered = 200ms;  // within which a connection counts as answered
constexpr std::size_t kMostUnderWay = 8192;

// Listening sockets stand first in /proc/net/tcp, so that a flood's own connections are never read.
std::vector<int> listening_ports(int but) {
  std::vector<int> ports;
  std::FILE* const file = std::fopen("/proc/net/tcp", "r");
  if (file == nullptr) return ports;
  char line[512];
  const bool titled = std::fgets(line, sizeof line, file) != nullptr;
  while (titled && std::fgets(line, sizeof line, file) != nullptr) {
    unsigned port = 0, state = 0;
    if (std::sscanf(line, " %*d: %*x:%x %*x:%*x %x", &port, &state) != 2 || state != 0x0a) break;
    if (static_cast<int>(port) != but) ports.push_back(static_cast<int>(port));
  }
  std::fclose(file);
  return ports;
}

class Flood {
 public:
  explicit Flood(const Options& options) : o_(options), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (o_.port != 0) ports_ = {o_.port};
  }

  void run() {
    const auto begin = Clock::now();
    const auto until = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(o_.seconds));
    Clock::time_point looked{};
    double due = 0;
    auto last = begin;
    while (Clock::now() < until) {
      const auto now = Clock::now();
      if (o_.listening && now - looked > kLook) {
        ports_ = listening_ports(o_.but);
        looked = now;
      }
      // What could not be opened in time is not made up for: the rate is a rate, not a total.
      due = std::min(due + o_.rate * std::chrono::duration<double>(now - last).count(), o_.rate / 10);
      last = now;
      for (; due >= 1 && !ports_.empty() && under_way_.size() < kMostUnderWay; --due) open();
      receive(1);
      give_up_on_unanswered(now);
      held_sum_ += static_cast<double>(silent_);
      ++looks_;
    }
    std::printf(
        "{\"seconds\": %.1f, \"attempted\": %ld, \"established\": %ld, \"unanswered\": %ld, \"refused\": %ld, "
        "\"silent_most\": %zu, \"silent_mean\": %.0f}\n",
        std::chrono::duration<double>(Clock::now() - begin).count(), attempted_, established_, unanswered_, refused_,
        silent_most_, looks_ > 0 ? held_sum_ / static_cast<double>(looks_) : 0);
  }

 private:
  struct Attempt {
    Clock::time_point since;
    bool stands = false;
  };

  void open() {
    const int port = ports_[next_++ % ports_.size()];
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    const linger reset{1, 0};  // leaves no TIME_WAIT
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ++attempted_;
    if (connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 && errno != EINPROGRESS) {
      ++refused_;
      close(fd);
      return;
    }
    epoll_event event{.events = EPOLLOUT | EPOLLIN | EPOLLET, .data = {.fd = fd}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
    under_way_[fd] = {Clock::now()};
    order_.push_back({fd, under_way_[fd].since});
  }

  void receive(int milliseconds) {
    epoll_event events[512];
    const int n = epoll_wait(epoll_, events, 512, milliseconds);
    for (int i = 0; i < n; ++i) receive_from(events[i].data.fd, events[i].events);
  }

  void receive_from(int fd, unsigned events) {
    const auto found = under_way_.find(fd);
    if (found == under_way_.end()) return;
    if (found->second.stands) {  // a silent one: has the other side closed it?
      char byte;
      const ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
      if (got > 0 || (got < 0 && errno == EAGAIN)) return;
      --silent_;
      return forget(fd);
    }
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
      ++refused_;
      return forget(fd);
    }
    if ((events & EPOLLOUT) == 0) return;
    ++established_;
    if (silent_ < o_.silent) {
      found->second.stands = true;
      silent_most_ = std::max(silent_most_, ++silent_);
      return;
    }
    if (established_ % 4 == 0) {
      static const std::string noise(32, '\x5a');
      (void)!send(fd, noise.data(), noise.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    forget(fd);
  }

  void give_up_on_unanswered(Clock::time_point now) {
    for (; !order_.empty() && now - order_.front().second > kAnswered; order_.pop_front()) {
      const auto found = under_way_.find(order_.front().first);
      if (found == under_way_.end() || found->second.stands || found->second.since != order_.front().second) continue;
      ++unanswered_;
      forget(order_.front().first);
    }
  }

  void forget(int fd) {
    under_way_.erase(fd);
    close(fd);
  }

  const Options o_;
  const int epoll_;
  std::vector<int> ports_;
  std::size_t next_ = 0;
  std::map<int, Attempt> under_way_;
  std::deque<std::pair<int, Clock::time_point>> order_;
  long attempted_ = 0, established_ = 0, unanswered_ = 0, refused_ = 0, looks_ = 0;
  std::size_t silent_ = 0, silent_most_ = 0;
  double held_sum_ = 0;
};

int wrong_usage(const char* what) {
  std::fprintf(stderr,
               "weft_flooder: %s; it takes --rate N --silent N --seconds S (--port P | --listening [--but P])\n", what);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--listening") {
      options.listening = true;
      continue;
    }
    if (i + 1 == argc) return wrong_usage(argv[i]);
    char* end = nullptr;
    const double value = std::strtod(argv[++i], &end);
    if (end == argv[i] || *end != 0 || value < 0) return wrong_usage(argv[i]);
    if (name == "--rate")
      options.rate = value;
    else if (name == "--silent")
      options.silent = static_cast<std::size_t>(value);
    else if (name == "--seconds")
      options.seconds = value;
    else if (name == "--port" && value <= 65535)
      options.port = static_cast<int>(value);
    else if (name == "--but" && value <= 65535)
      options.but = static_cast<int>(value);
    else
      return wrong_usage(argv[i - 1]);
  }
  if ((options.port == 0) == !options.listening) return wrong_usage("either --port or --listening is needed");
  Flood(options).run();
}
