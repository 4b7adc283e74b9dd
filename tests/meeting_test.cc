#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "net/bootstrap/job.h"
#include "net/link/handshake.h"
#include "net/link/interfaces.h"
#include "tests/processes.h"

// How ranks meet over TCP, who is kept out, and what they say when they do not.
namespace weft::net::bootstrap {
namespace {

using namespace std::chrono_literals;
using tests::Outcome;
using tests::Process;
using tests::Report;
using Clock = std::chrono::steady_clock;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string text_of(const Error& e) { return fmt::format("code {}: {}", static_cast<int>(e.code), e.message); }

// Says "here N name", or the error.
Process joining(const UniqueId& id, Rank rank, Rank ranks, Milliseconds timeout) {
  return Process([=](Report& report) {
    const auto meeting = meet({.id = id, .rank = rank, .ranks = ranks, .timeout = timeout});
    report.say(meeting ? fmt::format("here {} {}", meeting->ranks.size(), meeting->name) : text_of(meeting.error()));
  });
}

Host open(Rank ranks) { return Host::open(loopback(), ranks).value(); }

TEST(Meeting, RanksMeetWhateverTheOrderAndLearnOfEachOther) {
  Host host = open(5);
  std::vector<Process> ranks;
  for (const Rank r : {3, 0, 4, 1, 2}) ranks.push_back(joining(host.id(), r, 5, 60s));
  ASSERT_TRUE(host.serve(60s));
  std::string first;
  for (Process& p : ranks) {
    const std::string said = p.join().said;
    if (first.empty()) first = said;
    EXPECT_TRUE(contains(said, "here 5 ")) << said;
    EXPECT_EQ(said, first);  // the same unguessable name everywhere
  }
}

TEST(Meeting, MissingRanksAreNamedByTheHostAndByThoseWhoCame) {
  Host host = open(4);
  Process zero = joining(host.id(), 0, 4, 60s), two = joining(host.id(), 2, 4, 60s);
  const Status met = host.serve(400ms);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, Code::kTimeout);
  for (const std::string& said : {met.error().message, zero.join().said, two.join().said})
    EXPECT_TRUE(contains(said, "400 ms") && contains(said, "1, 3")) << said;
}

TEST(Ports, ARangeIsUsedFromItsBeginningAndNamedWhenItIsFull) {
  const Ports ports{23101, 23102};
  auto first = listen_on(loopback(), ports), second = listen_on(loopback(), ports);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(local_address(first->get()).port, 23101);
  EXPECT_EQ(local_address(second->get()).port, 23102);
  const auto third = listen_on(loopback(), ports);
  ASSERT_FALSE(third);
  EXPECT_TRUE(contains(third.error().message, "every port of 23101-23102 is in use")) << third.error().message;
}

TEST(Ports, AreOneOrARange) {
  EXPECT_EQ(parse_ports("x", "20000-20010")->text(), "20000-20010");
  EXPECT_EQ(parse_ports("x", "20000")->last, 20000);
  EXPECT_EQ(parse_ports("x", "")->first, 0);
  for (const char* wrong : {"20010-20000", "0", "1-70000", "x"}) EXPECT_FALSE(parse_ports("x", wrong)) << wrong;
}

TEST(Meeting, AHostThatNeverOpensIsNamed) {
  UniqueId id;
  {
    const Host gone = open(2);
    id = gone.id();
  }
  const std::string said = joining(id, 1, 2, 300ms).join().said;
  EXPECT_TRUE(contains(said, "300 ms") && contains(said, id.addresses[0].text())) << said;
}

TEST(Meeting, ARankWithAnotherKeyIsRefusedAndLearnsWhy) {
  Host host = open(2);
  UniqueId wrong = host.id();
  wrong.key[7] ^= 1;
  Process liar = joining(wrong, 1, 2, 60s), zero = joining(host.id(), 0, 2, 60s);
  std::thread served([&] { EXPECT_TRUE(host.serve(60s)); });
  const std::string said = liar.join().said;
  EXPECT_TRUE(contains(said, "another key")) << said;
  EXPECT_TRUE(contains(joining(host.id(), 1, 2, 60s).join().said, "here 2"));
  EXPECT_TRUE(contains(zero.join().said, "here 2"));
  served.join();
}

TEST(Meeting, AnotherNumberOfRanksOrATakenRankIsRefused) {
  Host host = open(2);
  Process zero = joining(host.id(), 0, 2, 60s);
  std::thread served([&] { EXPECT_TRUE(host.serve(60s)); });
  EXPECT_TRUE(contains(joining(host.id(), 1, 3, 60s).join().said, "number of ranks"));
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(contains(joining(host.id(), 0, 2, 60s).join().said, "two processes claim rank 0"));
  EXPECT_TRUE(contains(joining(host.id(), 1, 2, 60s).join().said, "here 2"));
  EXPECT_TRUE(contains(zero.join().said, "here 2"));
  served.join();
}

// A stranger: connects, sends this, and keeps silent until the test ends.
UniqueFd stranger(const Address& at, const std::string& words) {
  UniqueFd fd = start_connect(at).value();
  pollfd watched{fd.get(), POLLOUT, 0};
  poll(&watched, 1, 1000);
  (void)!send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL);
  return fd;
}

bool is_closed(int fd) {
  pollfd watched{fd, POLLIN, 0};
  char c;
  return poll(&watched, 1, 3000) > 0 && recv(fd, &c, 1, 0) <= 0;
}

TEST(Meeting, StrangersWhoSpeakSomethingElseDoNotDisturbIt) {
  Host host = open(3);
  const Address at = host.id().addresses[0];
  std::string random;
  for (int i = 0; i < 5000; ++i) random += static_cast<char>(i * 37 + i / 7);
  std::vector<UniqueFd> silent;
  const UniqueFd http = stranger(at, "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
  const UniqueFd noise = stranger(at, random);
  Greeting newer;
  newer.version = kVersion + 1;
  newer.kind = 1;
  const UniqueFd version = stranger(at, std::string(reinterpret_cast<const char*>(&newer), sizeof newer));
  for (int i = 0; i < 20; ++i) silent.push_back(stranger(at, std::string("weft\xf1\r\n", 7).substr(0, i % 8)));
  std::vector<Process> ranks;
  for (const Rank r : {0, 1, 2}) ranks.push_back(joining(host.id(), r, 3, 60s));
  const auto begin = Clock::now();
  ASSERT_TRUE(host.serve(60s));
  EXPECT_LT(Clock::now() - begin, 10s);
  for (Process& p : ranks) EXPECT_TRUE(contains(p.join().said, "here 3"));
  EXPECT_TRUE(is_closed(http.get()));
  EXPECT_TRUE(is_closed(noise.get()));
  Greeting answer;
  ASSERT_EQ(recv(version.get(), &answer, sizeof answer, MSG_WAITALL), static_cast<ssize_t>(sizeof answer));
  EXPECT_EQ(answer.version, kVersion);  // which is what a newer weft prints
}

TEST(Meeting, TooFewFileDescriptorsAreSaidBeforeAnyoneWaits) {
  const Outcome outcome = Process([](Report& report) {
                            const rlimit few{100, 100};
                            setrlimit(RLIMIT_NOFILE, &few);
                            const auto host = Host::open(loopback(), 512);
                            report.say(host ? "open" : text_of(host.error()));
                          }).join();
  for (const char* word : {"512 ranks", "576", "100 are allowed", "ulimit -n"})
    EXPECT_TRUE(contains(outcome.said, word)) << outcome.said;
}

// One process plays all ranks, to keep the test light; each is a thread with sockets of its own.
TEST(Meeting, FiveHundredAndTwelveRanksMeetInSeconds) {
  constexpr Rank kRanks = 512;
  auto host = Host::open(loopback(), kRanks);
  if (!host || !reserve_descriptors(4 * kRanks, "this test")) GTEST_SKIP() << "too few file descriptors";
  const auto begin = Clock::now();
  std::atomic<int> here = 0;
  std::vector<std::thread> ranks;
  for (Rank r = 0; r < kRanks; ++r)
    ranks.emplace_back([&, r] {
      const auto meeting = meet({.id = host->id(), .rank = r, .ranks = kRanks, .timeout = 60s});
      if (meeting && meeting->ranks[511].rank == 511) ++here;
    });
  EXPECT_TRUE(host->serve(60s));
  for (std::thread& t : ranks) t.join();
  EXPECT_EQ(here, kRanks);
  EXPECT_LT(Clock::now() - begin, 30s);
}

TEST(Meeting, CrossesIpv6) {
  Address v6;
  v6.family = 6;
  v6.ip[15] = 1;
  auto host = Host::open(v6, 2);
  if (!host) GTEST_SKIP() << "no IPv6 here: " << host.error().message;
  Process zero = joining(host->id(), 0, 2, 60s), one = joining(host->id(), 1, 2, 60s);
  ASSERT_TRUE(host->serve(60s));
  EXPECT_TRUE(contains(zero.join().said, "here 2"));
  EXPECT_TRUE(contains(one.join().said, "here 2"));
}

}  // namespace
}  // namespace weft::net::bootstrap
