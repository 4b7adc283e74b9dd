// Ranks joined by TCP that are killed, stopped, cut off, lied to, or leave: the others say which one, in time.

#include <gtest/gtest.h>

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/tcp_job.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using net::bootstrap::Meeting;
using tests::code_of;
using tests::Outcome;
using tests::Report;
using tests::TcpJob;
using tests::text_of;
using Clock = std::chrono::steady_clock;

constexpr auto kLong = 60s;  // a timeout that no test should need

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Reduces and checks without end; says "running" after ten calls, and the error that stops it.
TcpJob::RankContext streaming(const std::string& algorithm, std::size_t elements = 20000) {
  return [=](Communicator& c, Report& report) -> std::string {
    std::vector<std::int32_t> in(elements, 1), out(in.size());
    for (int call = 0;; ++call) {
      if (call == 10) report.say("running ");
      const Status s = c.run(
          {.in = in.data(), .out = out.data(), .count = in.size(), .type = DataType::kInt32, .algorithm = algorithm});
      if (!s) return text_of(s.error()) + (c.barrier() ? " but then it works again" : "");
      for (const std::int32_t x : out)
        if (x != c.ranks()) return fmt::format("{} instead of {}", x, c.ranks());
    }
  };
}

// The rank that fails reports to the processes of those that it is not connected with; the network may lose that.
TEST(TcpFailures, ARankWhoseNoticeIsLostIsAskedByThoseThatWaitForIt) {
  const auto lost = [](Rank self, Meeting& meeting) {
    if (self == 1) meeting.ranks[0].member_port = 1;  // nothing listens there
  };
  TcpJob job(
      2, kLong,
      [](Communicator& c, Report& report) -> std::string {
        if (c.rank() == 1) {
          c.abort();
          report.say("aborted");
          pause();
        }
        std::int32_t in = 0;
        const Status s = c.receive(std::span(&in, 1), 1);
        return s ? "ok" : text_of(s.error());
      },
      lost);
  job[1].await_word();
  const auto begin = Clock::now();
  const Outcome outcome = job[0].join();
  EXPECT_TRUE(contains(outcome.said, code_of(Code::kAborted))) << outcome.said;
  EXPECT_TRUE(contains(outcome.said, "rank 1")) << outcome.said;
  EXPECT_LT(Clock::now() - begin, kLong / 3);
}

class TcpFailure : public testing::TestWithParam<const char*> {};

TEST_P(TcpFailure, AKilledRankIsNamedByEverySurvivorLongBeforeTheTimeout) {
  constexpr Rank kRanks = 4;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const Rank victim = (repeat * 3 + 2) % kRanks;
    TcpJob job(kRanks, kLong, streaming(GetParam()));
    job.await_running();
    std::this_thread::sleep_for(std::chrono::microseconds(700 * repeat));  // anywhere in a call
    job[victim].send(SIGKILL);
    const auto killed = Clock::now();
    for (Rank r = 0; r < kRanks; ++r) {
      const Outcome outcome = job[r].join();
      if (r == victim) continue;
      EXPECT_TRUE(outcome.ended_well()) << "rank " << r << " " << outcome.how();
      EXPECT_TRUE(contains(outcome.said, code_of(Code::kPeerDied))) << outcome.said;
      EXPECT_TRUE(contains(outcome.said, fmt::format("rank {} ", victim))) << outcome.said;
      EXPECT_TRUE(contains(outcome.said, fmt::format("rank {}: all_reduce #", r))) << outcome.said;
      EXPECT_FALSE(contains(outcome.said, "works again")) << outcome.said;
    }
    EXPECT_LT(Clock::now() - killed, kLong / 2);
  }
}

// The stopped rank of a ring keeps only its neighbour waiting; the others wait for each other, and yet name it.
TEST_P(TcpFailure, AStoppedRankIsATimeoutThatNamesItAndIsToldWhenItGoesOn) {
  constexpr Rank kRanks = 4, kVictim = 1;
  TcpJob job(kRanks, 800ms, streaming(GetParam()));
  job.await_running();
  const auto stopped = Clock::now();
  job[kVictim].send(SIGSTOP);
  int timeouts = 0;
  for (Rank r = 0; r < kRanks; ++r) {
    if (r == kVictim) continue;
    const Outcome outcome = job[r].join();
    EXPECT_TRUE(outcome.ended_well()) << outcome.how();
    timeouts += contains(outcome.said, code_of(Code::kTimeout));
    EXPECT_TRUE(contains(outcome.said, code_of(Code::kTimeout)) || contains(outcome.said, code_of(Code::kAborted)))
        << outcome.said;
    EXPECT_TRUE(contains(outcome.said, fmt::format("rank {} ", kVictim))) << outcome.said;
  }
  EXPECT_GE(timeouts, 1);
  EXPECT_GE(Clock::now() - stopped, 700ms);
  EXPECT_LT(Clock::now() - stopped, 30s);
  job[kVictim].send(SIGCONT);
  const Outcome outcome = job[kVictim].join();
  EXPECT_TRUE(outcome.ended_well()) << outcome.how();
  EXPECT_TRUE(contains(outcome.said, "code")) << outcome.said;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, TcpFailure, testing::Values("ring", "tree", "one_shot"),
                         [](const auto& info) { return std::string(info.param); });

std::string barrier(Communicator& c, Report&) {
  const Status s = c.barrier();
  return s ? "well" : text_of(s.error());
}

TEST(TcpRanks, ReduceAndLeave) {
  for (const Rank n : {1, 2, 5})
    for (const std::string& said : TcpJob(n, kLong, barrier).join()) EXPECT_EQ(said, "well");
}

TEST(TcpRanks, ARankThatReturnsWithoutCallingIsNamed) {
  const auto begin = Clock::now();
  const auto said = TcpJob(3, kLong, [](Communicator& c, Report& report) {
                      return c.rank() == 1 ? "left" : barrier(c, report);
                    }).join();
  for (const Rank r : {0, 2})
    EXPECT_TRUE(contains(said[static_cast<std::size_t>(r)], "rank 1 ")) << said[static_cast<std::size_t>(r)];
  EXPECT_LT(Clock::now() - begin, kLong / 2);
}

// Strangers connect to rank 0, say nothing and stay; it computes meanwhile, and two ranks want to connect.
TEST(TcpRanks, SilentConnectionsDoNotEndAJob) {
  for (const int strangers : {65, 1000}) {
    static std::vector<UniqueFd> silent;
    const auto flood = [strangers](Rank self, Meeting& meeting) {
      if (self != 1) return;
      ASSERT_TRUE(net::bootstrap::reserve_descriptors(static_cast<std::size_t>(strangers) + 100, "a test"));
      for (int i = 0; i < strangers; ++i) {
        silent.push_back(net::link::start_connect(meeting.ranks[0].data).value());
        pollfd connected{silent.back().get(), POLLOUT, 0};
        poll(&connected, 1, 1000);
      }
    };
    const auto said = TcpJob(
                          3, kLong,
                          [](Communicator& c, Report& report) -> std::string {
                            std::this_thread::sleep_for(c.rank() == 0 ? 800ms : c.rank() == 1 ? 0ms : 100ms);
                            return barrier(c, report);
                          },
                          flood)
                          .join();
    for (const std::string& s : said) EXPECT_EQ(s, "well") << strangers;
  }
}

// Rank 0 feeds 1, which feeds 2; rank 0 is gone before rank 1 begins, and rank 2 waits for rank 1 all the while.
TEST(TcpRanks, ARankThatHasDoneItsPartMayGo) {
  for (const bool clean : {true, false}) {
    const auto said =
        TcpJob(3, kLong, [clean](Communicator& c, Report& report) -> std::string {
          if (!c.barrier()) return "no barrier";  // opens the connections
          if (c.rank() == 1) std::this_thread::sleep_for(300ms);
          std::int32_t x = c.rank() == 0 ? 42 : 0;
          const Status s =
              c.run({.collective = Collective::kBroadcast, .in = &x, .out = &x, .count = 1, .type = DataType::kInt32});
          const std::string end = s ? std::to_string(x) : text_of(s.error());
          if (c.rank() == 0 && !clean) {
            report.say(end);
            _exit(0);
          }
          return end;
        }).join();
    for (const std::string& s : said) EXPECT_EQ(s, "42");
  }
}

TEST(TcpRanks, DifferentCountsAreAMismatchThatNamesThePeer) {
  for (const char* algorithm : {"ring", "tree", "one_shot"}) {
    const auto said = TcpJob(2, kLong, [algorithm](Communicator& c, Report&) {
                        std::vector<float> x(1000);
                        const Status s = c.run({.in = x.data(),
                                                .out = x.data(),
                                                .count = 1000u - static_cast<unsigned>(c.rank()),
                                                .algorithm = algorithm});
                        return s ? "well" : text_of(s.error());
                      }).join();
    int found = 0;
    for (const Rank r : {0, 1}) {
      const std::string& s = said[static_cast<std::size_t>(r)];
      found += contains(s, code_of(Code::kMismatch)) &&
               contains(s, fmt::format("rank {} called all_reduce of {} float ", 1 - r, 1000 - (1 - r)));
      EXPECT_TRUE(contains(s, "code")) << s;
    }
    EXPECT_GE(found, 1) << said[0] << said[1];
  }
}

// Both wait for a message that the other does not send: nothing arrives that could be compared, so they ask.
TEST(TcpRanks, TwoRootsAreAMismatchAlthoughNothingIsSent) {
  const auto begin = Clock::now();
  const auto said = TcpJob(2, kLong, [](Communicator& c, Report& report) {
                      if (!c.barrier()) return std::string("no barrier");
                      std::int32_t x = 0;
                      const Status s = c.run({.collective = Collective::kBroadcast,
                                              .in = &x,
                                              .out = &x,
                                              .count = 1,
                                              .type = DataType::kInt32,
                                              .root = 1 - c.rank()});
                      (void)report;
                      return s ? std::string("well") : text_of(s.error());
                    }).join();
  EXPECT_TRUE(contains(said[0], code_of(Code::kMismatch)) || contains(said[1], code_of(Code::kMismatch)))
      << said[0] << "\n"
      << said[1];
  EXPECT_LT(Clock::now() - begin, kLong / 2);
}

TEST(TcpRanks, TooFewFileDescriptorsSayWhatToRaise) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer needs descriptors of its own to look at memory";
#endif
  const auto said = TcpJob(4, 20s, [](Communicator& c, Report& report) {
                      if (c.rank() == 2) {
                        const int next = dup(0);
                        close(next);
                        const rlimit few{static_cast<rlim_t>(next) + 1, static_cast<rlim_t>(next) + 1};
                        setrlimit(RLIMIT_NOFILE, &few);
                      }
                      const std::string first = barrier(c, report);  // one that rank 2 could still come to ends well
                      return first == "well" ? barrier(c, report) : first;
                    }).join();
  EXPECT_TRUE(contains(said[2], code_of(Code::kNoResources)) && contains(said[2], "ulimit -n")) << said[2];
  for (const std::string& s : said) EXPECT_TRUE(contains(s, "code")) << s;
}

// A man in the middle of rank 0's connection to rank 1: passes on what comes, both ways, and does something at a byte.
class Proxy {
 public:
  struct Mischief {
    std::int64_t at = -1;  // byte of the stream towards rank 1, counted from the greeting
    enum { kNothing, kFlipBit, kTruncate, kDelay, kSilence } what = kNothing;
  };

  explicit Proxy(Mischief mischief) : mischief_(mischief) {
    listener_ = net::link::listen_on(net::link::loopback()).value();
    hole_ = net::link::listen_on(net::link::loopback()).value();
  }
  ~Proxy() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  net::link::Address address() const { return net::link::local_address(listener_.get()); }
  // An address where nobody ever answers.
  net::link::Address hole() const { return net::link::local_address(hole_.get()); }
  // Called in rank 0; `to`: where rank 1 really listens.
  void begin(net::link::Address to) {
    thread_ = std::thread([this, to] { carry(to); });
  }

 private:
  void carry(const net::link::Address& to) {
    UniqueFd one, other;
    while (!one.open() && !stop_) {
      one = net::link::accept_from(listener_.get()).value();
      std::this_thread::sleep_for(1ms);
    }
    if (stop_) return;
    other = net::link::start_connect(to).value();
    std::int64_t passed = 0;
    bool silent = false;
    while (!stop_) {
      pollfd watched[2] = {{one.get(), POLLIN, 0}, {other.get(), POLLIN, 0}};
      if (poll(watched, 2, 20) <= 0) continue;
      for (const int side : {0, 1}) {
        if ((watched[side].revents & (POLLIN | POLLHUP)) == 0) continue;
        char buffer[4096];
        ssize_t n = recv(watched[side].fd, buffer, sizeof buffer, 0);
        if (n <= 0) return;
        if (side == 0 && mischief_.at >= passed && mischief_.at < passed + n) {
          const auto at = static_cast<std::size_t>(mischief_.at - passed);
          if (mischief_.what == Mischief::kFlipBit) buffer[at] = static_cast<char>(buffer[at] ^ 0x10);
          if (mischief_.what == Mischief::kDelay) std::this_thread::sleep_for(200ms);
          if (mischief_.what == Mischief::kSilence) silent = true;
          if (mischief_.what == Mischief::kTruncate) {
            (void)!write(watched[1 - side].fd, buffer, at);
            return;
          }
        }
        if (side == 0) passed += n;
        for (ssize_t sent = 0; sent < n && !silent;) {
          const ssize_t k = send(watched[1 - side].fd, buffer + sent, static_cast<std::size_t>(n - sent), MSG_NOSIGNAL);
          if (k > 0) sent += k;
          if (k < 0 && errno != EAGAIN) return;
        }
      }
    }
  }

  Mischief mischief_;
  UniqueFd listener_, hole_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// The reports of both ranks of a stream of messages from rank 0 to rank 1 through a proxy.
std::vector<std::string> through(Proxy::Mischief mischief, std::chrono::milliseconds timeout) {
  auto proxy = std::make_unique<Proxy>(mischief);
  return TcpJob(
             2, timeout,
             [](Communicator& c, Report&) -> std::string {
               std::vector<std::int32_t> in(5000, 1), out(in.size());
               for (int call = 0; call < 30; ++call) {
                 const Status s = c.run({.in = in.data(),
                                         .out = out.data(),
                                         .count = in.size(),
                                         .type = DataType::kInt32,
                                         .algorithm = "one_shot"});
                 if (!s) return text_of(s.error());
                 if (out != std::vector<std::int32_t>(in.size(), 2)) return "wrong data";
               }
               return "well";
             },
             [&](Rank self, Meeting& meeting) {
               if (self == 0) {
                 proxy->begin(meeting.ranks[1].data);
                 meeting.ranks[1].data = proxy->address();
               } else {
                 meeting.ranks[0].data = proxy->hole();  // rank 0's is the only way
               }
             })
      .join();
}

// The stream: 2 greetings of 96 bytes, then frames: a header of 64 bytes and 20000 of data, 30 times.
constexpr std::int64_t kGreetings = 2 * 96, kHeader = 64, kFrame = kHeader + 20000;

TEST(TcpDamage, AProxyThatDoesNothingIsNotNoticed) {
  for (const std::string& s : through({}, kLong)) EXPECT_EQ(s, "well");
}

TEST(TcpDamage, AFlippedBitInTheDataIsFoundAndNamesPeerMessageAndChecksum) {
  for (const std::int64_t at : {kGreetings + kHeader, kGreetings + 7 * kFrame + 12345, kGreetings + 20 * kFrame - 1}) {
    const auto said = through({at, Proxy::Mischief::kFlipBit}, kLong);
    for (const char* word : {"code", "rank 0", "damaged", "message", "checksum"})
      EXPECT_TRUE(contains(said[1], word)) << said[1];
    EXPECT_TRUE(contains(said[0], "code")) << said[0];
  }
}

TEST(TcpDamage, AFlippedBitInAHeaderIsFound) {
  for (std::int64_t byte = 0; byte < kHeader; byte += 5) {
    const auto said = through({kGreetings + 3 * kFrame + byte, Proxy::Mischief::kFlipBit}, kLong);
    EXPECT_TRUE(contains(said[1], "rank 0") && contains(said[1], "damaged")) << byte << ": " << said[1];
  }
}

TEST(TcpDamage, AFlippedBitInTheGreetingKeepsTheRanksApart) {
  for (const std::int64_t at : {2, 9, 20, 40, 100, 170}) {
    const auto said = through({at, Proxy::Mischief::kFlipBit}, 1500ms);
    EXPECT_TRUE(contains(said[1], "code") && contains(said[1], "rank 0")) << at << ": " << said[1];
    EXPECT_TRUE(contains(said[0], "code") && contains(said[0], "rank 1")) << at << ": " << said[0];
  }
}

TEST(TcpDamage, ATruncatedStreamIsAPeerThatHasEnded) {
  const auto said = through({kGreetings + 5 * kFrame + 777, Proxy::Mischief::kTruncate}, kLong);
  EXPECT_TRUE(contains(said[1], code_of(Code::kPeerDied)) && contains(said[1], "rank 0")) << said[1];
  EXPECT_TRUE(contains(said[0], code_of(Code::kPeerDied)) && contains(said[0], "rank 1")) << said[0];
}

TEST(TcpDamage, ADelayIsWaitedFor) {
  for (const std::string& s : through({kGreetings + 5 * kFrame + 777, Proxy::Mischief::kDelay}, kLong))
    EXPECT_EQ(s, "well");
}

TEST(TcpDamage, ALinkThatGoesSilentIsATimeoutThatNamesThePeer) {
  const auto said = through({kGreetings + 5 * kFrame + 777, Proxy::Mischief::kSilence}, 700ms);
  EXPECT_TRUE(contains(said[1], "rank 0")) << said[1];
  EXPECT_TRUE(contains(said[0], "rank 1")) << said[0];
}

}  // namespace
}  // namespace weft
