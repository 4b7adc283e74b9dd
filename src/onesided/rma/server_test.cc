#include "onesided/rma/server.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "onesided/rma/line.h"

namespace weft::net::rma {
namespace {

std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

TEST(Server, SilentConnectionsTakeFewDescriptorsAndKeepNoPeerOut) {
  constexpr int kStrangers = 300;
  const link::Key key{1, 2, 3};
  auto server = Server::open(link::loopback(), key, {}, 2).value();
  std::vector<std::byte> memory(4096);
  pgas::Space space(0, 2);
  space.add({.own = memory.data(), .bytes = 4096, .mapped = {memory.data(), nullptr}});
  server->serve(space);
  const auto before = descriptors();
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < kStrangers; ++i) {
    strangers.push_back(link::start_connect(server->address()).value());
    pollfd connected{strangers.back().get(), POLLOUT, 0};
    poll(&connected, 1, 1000);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(descriptors() - before - kStrangers, 70);
  Line line;
  const Status opened = line.open(server->address(), key, {}, 1, 0, std::chrono::seconds(60));
  EXPECT_TRUE(opened) << opened.error().message;
}

// Takes the loopback of a network namespace of this process down: from then on nothing arrives, and nothing is reset.
bool set_loopback(bool up) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  if (ioctl(fd.get(), SIOCGIFFLAGS, &request) != 0) return false;
  request.ifr_flags = static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  return ioctl(fd.get(), SIOCSIFFLAGS, &request) == 0;
}

// Of a process that has a network of its own: 0: both ends noticed; 77: it may not have one.
int ends_that_notice_a_cut_link() {
  using namespace std::chrono_literals;
  if (unshare(CLONE_NEWNET) != 0 || !set_loopback(true)) return 77;
  const link::Key key{1, 2, 3};
  auto server = Server::open(link::loopback(), key, {}, 2, {}, 2s).value();
  std::vector<std::byte> memory(4096), back(64);
  pgas::Space space(0, 2);
  space.add({.own = memory.data(), .bytes = 4096, .mapped = {memory.data(), nullptr}});
  server->serve(space);
  Line line;
  if (!line.open(server->address(), key, {}, 1, 0, 2s)) return 1;
  const Request get{.kind = Request::Kind::kGet, .bytes = 64};
  if (!line.ask(get, {}, back)) return 2;
  if (!set_loopback(false)) return 77;
  const auto cut = std::chrono::steady_clock::now();
  const auto late = [&] { return std::chrono::steady_clock::now() - cut > 15s; };
  const Status asked = line.ask(get, {}, back);
  if (asked || late()) return 3;
  while (!server->has_left(1))
    if (late()) return 4;
  return 0;
}

TEST(Line, ALinkThatIsCutWithoutAResetEndsBothEndsOfAConnection) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);  // it would wait for ever
    _exit(ends_that_notice_a_cut_link());
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "it still waited after 30 s";
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no network namespaces here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Passes on what a line and a server send each other, and changes one byte in one direction behind the greetings.
class Relay {
 public:
  Relay(const link::Address& server, bool of_answers, std::size_t at) {
    listener_ = link::listen_on(link::loopback()).value();
    thread_ = std::thread([this, server, of_answers, at] {
      pollfd comes{listener_.get(), POLLIN, 0};
      poll(&comes, 1, 60000);
      const auto asker = link::accept_from(listener_.get()).value();
      const auto served = link::start_connect(server).value();
      pollfd ready[2] = {{served.get(), POLLOUT, 0}, {}};
      poll(ready, 1, 60000);
      std::size_t passed[2] = {0, 0};
      const int ends[2] = {asker.get(), served.get()};
      for (bool open = true; open;) {
        ready[0] = {ends[0], POLLIN, 0};
        ready[1] = {ends[1], POLLIN, 0};
        poll(ready, 2, 60000);
        for (int from = 0; from < 2; ++from) {
          if (ready[from].revents == 0) continue;
          char bytes[4096];
          const ssize_t n = recv(ends[from], bytes, sizeof bytes, MSG_DONTWAIT);
          if (n <= 0) {
            open = false;
            continue;
          }
          constexpr std::size_t kGreetings = 2 * sizeof(link::Greeting);
          const std::size_t wanted = kGreetings + at;
          if (from == (of_answers ? 1 : 0) && passed[from] <= wanted &&
              wanted < passed[from] + static_cast<std::size_t>(n))
            bytes[wanted - passed[from]] ^= 1;
          passed[from] += static_cast<std::size_t>(n);
          for (ssize_t sent = 0; sent < n;) {
            const ssize_t more = send(ends[1 - from], bytes + sent, static_cast<std::size_t>(n - sent), MSG_NOSIGNAL);
            if (more > 0) sent += more;
            if (more >= 0 || errno == EAGAIN) continue;
            open = false;  // the other end has gone, with what it had not read
            break;
          }
        }
      }
    });
  }
  ~Relay() { thread_.join(); }
  link::Address address() const { return link::local_address(listener_.get()); }

 private:
  UniqueFd listener_;
  std::thread thread_;
};

class Sealed : public testing::TestWithParam<link::Protection> {
 protected:
  static constexpr Bytes kBytes = 200'000;  // several records, and a shorter last one

  // What a line through a relay that changes this byte gets of what it has put.
  Status put_and_get(bool of_answers, std::size_t at) {
    const link::Key key{1, 2, 3};
    const link::Sealing sealing{.protection = GetParam()};
    auto server = Server::open(link::loopback(), key, sealing, 2).value();
    std::vector<std::byte> memory(kBytes), from(kBytes), back(kBytes);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
    pgas::Space space(0, 2);
    space.add({.own = memory.data(), .bytes = kBytes, .mapped = {memory.data(), nullptr}});
    server->serve(space);
    Relay relay(server->address(), of_answers, at);
    Line line;
    WEFT_CHECK(line.open(relay.address(), key, sealing, 1, 0, std::chrono::seconds(60)));
    WEFT_CHECK(line.ask({.kind = Request::Kind::kPut, .bytes = kBytes}, from, {}));
    WEFT_CHECK(line.begin_flush());
    WEFT_CHECK(line.end_flush());
    EXPECT_TRUE(memory == from);
    WEFT_CHECK(line.ask({.kind = Request::Kind::kGet, .bytes = kBytes}, {}, back));
    EXPECT_TRUE(back == from);
    Word old = 0, one = 1;
    std::memcpy(&old, memory.data(), sizeof old);
    Word fetched = 0;
    WEFT_CHECK(line.ask({.kind = Request::Kind::kFetch,
                         .op = static_cast<std::uint8_t>(pgas::AtomicOp::kAdd),
                         .bytes = 8,
                         .operand = one},
                        {}, std::as_writable_bytes(std::span(&fetched, 1))));
    EXPECT_EQ(fetched, old);
    return {};
  }
};

constexpr std::size_t kNowhere = std::size_t{1} << 40;

TEST_P(Sealed, PutsGetsAndFetchesAreThoseOfAnOpenLine) {
  const Status done = put_and_get(false, kNowhere);
  EXPECT_TRUE(done) << done.error().message;
}

TEST_P(Sealed, AnAnswerThatWasChangedIsAnErrorAndIsNotTaken) {
  // The flush's answer, then the first and the last record of the get's.
  for (const std::size_t at : {std::size_t{3}, std::size_t{24 + 100}, std::size_t{24 + kBytes}}) {
    const Status done = put_and_get(true, at);
    ASSERT_FALSE(done) << at;
    EXPECT_NE(done.error().message.find("was changed on its way"), std::string::npos) << done.error().message;
  }
}

TEST_P(Sealed, ARequestThatWasChangedEndsTheProcessThatServesWithOneLine) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const std::size_t at : {std::size_t{8}, std::size_t{56 + 1000}})
    EXPECT_DEATH((void)put_and_get(false, at), "what came from PE 1 was changed on its way") << at;
}

INSTANTIATE_TEST_SUITE_P(Lines, Sealed, testing::Values(link::Protection::kMac, link::Protection::kEncrypt),
                         [](const auto& i) { return link::word(i.param); });

}  // namespace
}  // namespace weft::net::rma
