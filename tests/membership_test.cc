// Which ranks a communicator has, and which go on after a failure: ranks as processes that are killed, late, drop the
// communicator or shrink it. Never do two groups go on, and every rank learns what has become of the others.

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "net/bootstrap/arbiter.h"
#include "tests/membership.h"

namespace weft {
namespace {

using namespace tests::membership;

INSTANTIATE_TEST_SUITE_P(Over, Membership, testing::Values("shm", "tcp", "ucx", "mixed"),
                         [](const auto& info) { return std::string(info.param); });

// Rank 1 is killed, rank 2 comes to shrink() when the others have gone on; those stay until it has asked twice.
TEST_P(Membership, ALateRankLearnsThatItWasLeftOutHoweverOftenItAsks) {
  ConnectedJob job(4, options(2000ms), [](Communicator& c, Report& report, NoticeBoard& board) -> std::string {
    if (!c.barrier()) return "no barrier";
    report.say("running ");
    if (c.rank() == 1) pause();
    if (c.rank() == 2) {
      (void)board.await(1);
      const std::string first = text_of(c.shrink()), second = text_of(c.shrink());
      board.post(2, {});
      return first + " | " + second;
    }
    (void)barrier_until_it_fails(c);
    auto rest = c.shrink();
    if (!rest) return text_of(rest.error());
    if (const std::string wrong = reduce_and_check(*rest); !wrong.empty()) return wrong;
    c = Communicator(nullptr);  // what was decided is known without it
    board.post(1, {});
    (void)board.await(2);
    return text_of(rest);
  });
  job.await_running();
  job[1].send(SIGKILL);
  const auto said = job.join({1});
  EXPECT_TRUE(contains(said[0], "ok as 0 of 2")) << said[0];
  EXPECT_TRUE(contains(said[3], "ok as 1 of 2")) << said[3];
  const std::size_t middle = said[2].find(" | ");
  ASSERT_NE(middle, std::string::npos) << said[2];
  for (const std::string& once : {said[2].substr(0, middle), said[2].substr(middle)}) {
    EXPECT_TRUE(contains(once, code_of(Code::kLeftOut)) && contains(once, "ranks 0, 3 go on")) << said[2];
  }
}

// pytorch/pytorch #180611: a rank that is excluded, lives and calls nothing keeps the others waiting.
TEST_P(Membership, AShrinkWithoutALivingRankDoesNotWaitForIt) {
  ConnectedJob job(4, options(30s), [](Communicator& c, Report&, NoticeBoard& board) -> std::string {
    (void)c.barrier();  // it may fail already, where a rank that has passed it has shrunk the communicator
    const std::vector<Rank> without{2}, itself{c.rank()}, nobody{4};
    if (c.rank() == 2) {
      (void)board.await(1);
      const std::string said = text_of(c.shrink());
      board.post(2, {});
      return said;
    }
    for (const auto& wrong : {itself, nobody})
      if (const auto refused = c.shrink(wrong); refused || refused.error().code != Code::kInvalidArgument)
        return text_of(refused);
    const auto begin = Clock::now();
    auto rest = c.shrink(without);
    const bool late = Clock::now() - begin > 10s;
    if (!rest || late) return late ? "late" : text_of(rest);
    if (const std::string wrong = reduce_and_check(*rest); !wrong.empty()) return wrong;
    if (c.rank() == 0) board.post(1, {});
    (void)board.await(2);  // a rank that is asked knows what was decided
    return text_of(rest);
  });
  const auto said = job.join();
  for (const auto& [rank, as] : std::map<std::size_t, int>{{0, 0}, {1, 1}, {3, 2}})
    EXPECT_TRUE(contains(said[rank], fmt::format("ok as {} of 3", as))) << said[rank];
  EXPECT_TRUE(contains(said[2], code_of(Code::kLeftOut)) && contains(said[2], "0, 1, 3 go on")) << said[2];
}

TEST_P(Membership, ALateRankLearnsThatItWasLeftOutWhenTheOthersHaveExited) {
  ConnectedJob job(4, options(1500ms), [](Communicator& c, Report& report, NoticeBoard&) -> std::string {
    if (!c.barrier()) return "no barrier";
    report.say("running ");
    if (c.rank() == 1) pause();
    if (c.rank() == 2) std::this_thread::sleep_for(5s);
    if (c.rank() != 2) (void)barrier_until_it_fails(c);
    return text_of(c.shrink());
  });
  job.await_running();
  job[1].send(SIGKILL);
  const auto said = job.join({1});
  EXPECT_TRUE(contains(said[0], "ok as 0 of 2")) << said[0];
  EXPECT_TRUE(contains(said[2], code_of(Code::kLeftOut))) << said[2];
}

// Ranks find the death themselves, or learn it from others.
TEST_P(Membership, EverySurvivorsErrorNamesTheDeadRankAsAValue) {
  ConnectedJob job(4, options(20s), [](Communicator& c, Report& report, NoticeBoard&) -> std::string {
    if (!c.barrier()) return "no barrier";
    report.say("running ");
    if (c.rank() == 2) pause();
    const Status s = barrier_until_it_fails(c);
    return fmt::format("{} of {}", code_of(s.error().code), fmt::join(s.error().ranks, ","));
  });
  job.await_running();
  job[2].send(SIGKILL);
  const auto said = job.join({2});
  for (const std::size_t r : {0u, 1u, 3u}) EXPECT_EQ(said[r], "running " + code_of(Code::kPeerDied) + " of 2");
}

// Half of the ranks with rank 0 is a quorum, the other half is none; memory that ranks share needs none.
TEST_P(Membership, OfTwoRanksRankZeroGoesOnAndRankOneNeedsAnArbiter) {
  for (const Rank victim : {0, 1}) {
    ConnectedJob job(2, options(2000ms), [](Communicator& c, Report& report, NoticeBoard&) -> std::string {
      if (!c.barrier()) return "no barrier";
      report.say("running ");
      (void)barrier_until_it_fails(c);
      const std::string first = text_of(c.shrink());
      return contains(first, "ok") ? first : first + " | " + text_of(c.shrink());
    });
    job.await_running();
    job[victim].send(SIGKILL);
    const std::string said = job.join({victim})[1 - static_cast<std::size_t>(victim)];
    const bool shares = shm() || std::string(GetParam()) == "mixed";  // both are on one machine
    if (victim == 1 || shares)
      EXPECT_TRUE(contains(said, "ok as 0 of 1")) << said;
    else
      EXPECT_TRUE(contains(said, code_of(Code::kNoQuorum)) && contains(said, "1 of 2 ranks")) << said;
  }
}

TEST_P(Membership, WithAnArbiterAnyRemainderGoesOn) {
  auto arbiter = net::bootstrap::Arbiter::open(net::link::loopback()).value();
  setenv("WEFT_ARBITER", arbiter->address().text().c_str(), 1);
  ConnectedJob job(3, options(5000ms), [](Communicator& c, Report& report, NoticeBoard&) -> std::string {
    if (!c.barrier()) return "no barrier";
    report.say("running ");
    Communicator current = c;
    while (current.ranks() > 1) {
      (void)barrier_until_it_fails(current);
      auto rest = current.shrink();
      if (!rest) return text_of(rest.error());
      current = std::move(*rest);
      report.say("shrunk ");
    }
    return "alone";
  });
  arbiter->serve();
  job.await_running();
  job[0].send(SIGKILL);
  std::this_thread::sleep_for(20ms);
  job[1].send(SIGKILL);
  EXPECT_TRUE(contains(job.join({0, 1})[2], "alone"));
  unsetenv("WEFT_ARBITER");
}

// Rank 1 comes half a second after rank 0 has begun to shrink: rank 0 lives, and both go on.
TEST_P(Membership, ARankInsideShrinkIsNotSaidToHaveEnded) {
  const auto said = ConnectedJob(2, options(20s), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
                      if (c.rank() == 0) return text_of(c.shrink());
                      std::this_thread::sleep_for(500ms);
                      const std::string seen = text_of(c.barrier());
                      return seen + " | " + text_of(c.shrink());
                    }).join();
  EXPECT_TRUE(contains(said[0], "ok as 0 of 2")) << said[0];
  EXPECT_TRUE(contains(said[1], "ok as 1 of 2")) << said[1];
  EXPECT_TRUE(contains(said[1], code_of(Code::kPeerLeft)) && contains(said[1], "rank 0") &&
              contains(said[1], "shrink()"))
      << said[1];
}

TEST_P(Membership, ADroppedCommunicatorIsNotADeath) {
  const auto said = ConnectedJob(2, options(20s), [](Communicator& c, Report&, NoticeBoard& board) -> std::string {
                      if (c.rank() == 0) {
                        c = Communicator(nullptr);
                        board.post(1, {});
                        (void)board.await(2);
                        return "dropped";
                      }
                      (void)board.await(1);
                      const std::string seen = text_of(c.barrier());
                      board.post(2, {});
                      return seen;
                    }).join();
  EXPECT_TRUE(contains(said[1], code_of(Code::kPeerLeft)) && contains(said[1], "rank 0")) << said[1];
}

TEST_P(Membership, AllSurvivorsOfADeathGetTheSameCodeWithItsName) {
  constexpr Rank kRanks = 5, kVictim = 3;
  ConnectedJob job(kRanks, options(60s), [](Communicator& c, Report& report, NoticeBoard&) -> std::string {
    if (!c.barrier()) return "no barrier";
    report.say("running ");
    const Status s = barrier_until_it_fails(c);
    report.say(text_of(s));
    std::this_thread::sleep_for(1s);  // so that the exit of one is not what others see
    return "";
  });
  job.await_running();
  std::this_thread::sleep_for(50ms);
  job[kVictim].send(SIGKILL);
  const auto killed = Clock::now();
  const auto said = job.join({kVictim});
  for (Rank r = 0; r < kRanks; ++r)
    if (r != kVictim) {
      const std::string& s = said[static_cast<std::size_t>(r)];
      EXPECT_TRUE(contains(s, code_of(Code::kPeerDied)) && contains(s, fmt::format("rank {} ", kVictim))) << s;
    }
  EXPECT_LT(Clock::now() - killed, 20s);
}

// Ranks 0 and 1 disagree and exit at once; rank 2 has no connection with them and comes later.
TEST_P(Membership, TheCauseOutlivesTheProcessesThatFoundIt) {
  const auto said = ConnectedJob(3, options(20s), [](Communicator& c, Report& report, NoticeBoard&) -> std::string {
                      std::vector<float> data(20000);
                      if (c.rank() == 2) {
                        std::this_thread::sleep_for(1500ms);
                        return text_of(c.barrier());
                      }
                      const std::size_t count = c.rank() == 0 ? data.size() : data.size() / 2;
                      const Status s = c.run({.in = data.data(),
                                              .out = data.data(),
                                              .count = count,
                                              .algorithm = std::string(c.ranks() == 3 ? "ring" : "")});
                      report.say(text_of(s));
                      _exit(0);
                    }).join();
  EXPECT_TRUE(contains(said[2], "code")) << said[2];
  EXPECT_FALSE(contains(said[2], code_of(Code::kPeerDied)) || contains(said[2], "Connection refused")) << said[2];
}

TEST_P(Membership, AgreementIsTheAndOfAllRanksOnASoundAndOnABrokenCommunicator) {
  constexpr Rank kRanks = 4;
  ConnectedJob job(kRanks, options(20s), [](Communicator& c, Report& report, NoticeBoard&) -> std::string {
    const auto mine = ~(std::uint64_t{1} << c.rank());
    std::string text;
    for (int round = 0; round < 3; ++round) {
      const auto all = c.agree(mine);
      if (!all) return text_of(all.error());
      text += fmt::format("{:x} without {}, ", ~all->bits, all->ended.size());
    }
    if (!c.barrier()) return "no barrier";
    report.say("running ");
    if (c.rank() == 2) pause();
    (void)barrier_until_it_fails(c);
    const auto rest = c.agree(mine);
    if (!rest) return text_of(rest.error());
    return text + fmt::format("{:x} without {}", ~rest->bits, rest->ended.empty() ? -1 : rest->ended.front());
  });
  job.await_running();
  job[2].send(SIGKILL);
  const auto said = job.join({2});
  for (const std::size_t r : {0, 1, 3})
    EXPECT_TRUE(contains(said[r], "f without 0, f without 0, f without 0, b without 2")) << said[r];
}

TEST_P(Membership, ATimeoutIsSetPerCallOrForEver) {
  const auto said = ConnectedJob(2, options(500ms), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
                      if (!c.barrier()) return "no barrier";
                      c.set_timeout(0ms);
                      if (c.rank() == 1) std::this_thread::sleep_for(1500ms);  // three times what was set at first
                      if (const Status s = c.barrier(); !s) return "for ever: " + text_of(s);
                      c.set_timeout(300ms);
                      if (c.rank() == 1) std::this_thread::sleep_for(1500ms);
                      return text_of(c.barrier());
                    }).join();
  EXPECT_TRUE(contains(said[0], code_of(Code::kTimeout)) && contains(said[0], "waited 300 ms for rank 1")) << said[0];
}

// Rank 0's broadcast times out while the others are late, and it uses the memory for something else. The others may
// still find the frames on their way, and must not take what is in that memory now.
TEST_P(Membership, LateRanksDoNotTakeTheMemoryOfACallThatHasFailed) {
  constexpr std::size_t kCount = 4 << 20;
  const auto said = ConnectedJob(3, options(5000ms), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
                      std::vector<std::uint8_t> data(kCount, c.rank() == 0 ? 1 : 0);
                      Request broadcast{.collective = Collective::kBroadcast,
                                        .in = c.rank() == 0 ? data.data() : nullptr,
                                        .out = data.data(),
                                        .count = kCount,
                                        .type = DataType::kUint8};
                      if (const Status s = c.run(broadcast); !s) return "the first: " + text_of(s);
                      if (c.rank() != 0) std::this_thread::sleep_for(700ms);
                      if (c.rank() == 0) broadcast.timeout = 200ms;
                      const Status s = c.run(broadcast);
                      const bool sound = std::ranges::all_of(data, [](std::uint8_t byte) { return byte == 1; });
                      std::ranges::fill(data, std::uint8_t{9});
                      if (c.rank() == 0) std::this_thread::sleep_for(1500ms);
                      return s && !sound ? "ok with other bytes" : text_of(s);
                    }).join();
  EXPECT_TRUE(contains(said[0], code_of(Code::kTimeout))) << said[0];
  for (const std::size_t r : {1, 2}) {
    EXPECT_FALSE(said[r].starts_with("ok")) << said[r];
    EXPECT_FALSE(contains(said[r], "damaged")) << said[r];
    EXPECT_TRUE(contains(said[r], "broken") || contains(said[r], "too late")) << said[r];
  }
}

TEST(Agreement, OfThreadsIsTheAndOfAllThatHaveNotLeft) {
  auto comms = Communicator::threads(3).value();
  std::vector<std::thread> threads;
  for (auto& c : comms)
    threads.emplace_back([own = std::move(c)]() mutable {
      const auto mine = ~(std::uint64_t{1} << own.rank());
      const auto all = own.agree(mine);
      ASSERT_TRUE(all) << all.error().message;
      EXPECT_EQ(~all->bits, 7u);
      if (own.rank() == 0) return;
      EXPECT_EQ(own.barrier().error().code, Code::kPeerLeft);
      const auto rest = own.agree(mine);
      ASSERT_TRUE(rest) << rest.error().message;
      EXPECT_EQ(~rest->bits, 6u);
      EXPECT_EQ(rest->ended, std::vector<Rank>{0});
    });
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace weft
