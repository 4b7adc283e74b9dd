#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/result.h"
#include "tests/connected_job.h"
#include "tests/lifecycle.h"
#include "weft/group.h"

// Communicators that are split, lose ranks, get new ones, are aborted and finalized: ranks as processes that meet by
// unique ids, over shared memory, TCP, UCX, and shared memory together with each of them. Timeouts are generous, for
// machines may be busy.
namespace weft {
namespace {

using namespace std::chrono_literals;
using tests::ConnectedJob;
using tests::NoticeBoard;
using tests::reduce_and_check;
using tests::Report;
using Clock = std::chrono::steady_clock;

INSTANTIATE_TEST_SUITE_P(Over, Lifecycle, testing::Values("shm", "tcp", "ucx", "mixed", "mixed_ucx"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Lifecycle, SurvivorsOfAKilledRankGoOnWithRightResults) {
  constexpr Rank kRanks = 4;
  for (const Rank victim : {0, 2}) {
    ConnectedJob job(kRanks, options(), [](Communicator& c, Report& report, NoticeBoard&) {
      return stream_and_shrink(c, report, kRanks - 1);
    });
    job.await_running();
    job[victim].send(SIGKILL);
    const auto said = job.join({victim});
    for (Rank r = 0, next = 0; r < kRanks; ++r)
      if (r != victim) {
        EXPECT_TRUE(contains(said[static_cast<std::size_t>(r)], fmt::format("well as {} of 3", next++)))
            << "rank " << r << ": " << said[static_cast<std::size_t>(r)];
      }
  }
}

// Of few ports a survivor takes the one at which the dead rank answered; others then ask there for that rank.
TEST(Ports, OfADeadRankThatSurvivorsTakeHoldUpNobody) {
  constexpr auto kTimeout = 20s;
  setenv("WEFT_PORTS", "23700-23739", 1);
  for (const Rank victim : {1, 2, 3}) {
    ConnectedJob job(4, {.transport = "tcp", .timeout = kTimeout},
                     [](Communicator& c, Report& report, NoticeBoard&) { return stream_and_shrink(c, report, 3); });
    job.await_running();
    const auto begin = Clock::now();
    job[victim].send(SIGKILL);
    for (const std::string& said : job.join({victim}))
      EXPECT_TRUE(contains(said, "of 3") || said == "running ") << said;
    EXPECT_LT(Clock::now() - begin, kTimeout / 2) << "without rank " << victim;
  }
  unsetenv("WEFT_PORTS");
}

TEST_P(Lifecycle, TwoRanksThatDieOneAfterTheOtherLeaveTwoThatGoOn) {
  ConnectedJob job(4, options(),
                   [](Communicator& c, Report& report, NoticeBoard&) { return stream_and_shrink(c, report, 2); });
  job.await_running();
  job[1].send(SIGKILL);
  std::this_thread::sleep_for(30ms);  // before, while or after the others have shrunk
  job[3].send(SIGKILL);
  const auto said = job.join({1, 3});
  EXPECT_TRUE(contains(said[0], "well as 0 of 2")) << said[0];
  EXPECT_TRUE(contains(said[2], "well as 1 of 2")) << said[2];
}

TEST_P(Lifecycle, NewRanksJoinWhileTheOthersStay) {
  constexpr Rank kOld = 2, kAll = 4;
  ConnectedJob job(kOld, options(), [](Communicator& c, Report&, NoticeBoard& board) -> std::string {
    if (const std::string wrong = reduce_and_check(c); !wrong.empty()) return wrong;
    std::optional<MeetingPlace> place;
    if (c.rank() == 0) {
      place = MeetingPlace::open(kAll, {.timeout = 60s}).value();
      board.post(1, place->id());
    }
    auto all = c.grow(place ? place->id() : UniqueId{}, kAll);
    if (!all) return all.error().message;
    if (all->rank() != c.rank() || all->ranks() != kAll) return "another number";
    if (const std::string wrong = reduce_and_check(*all); !wrong.empty()) return wrong;
    return reduce_and_check(c);  // the old one still works
  });
  std::vector<tests::Process> joining;
  for (Rank r = kOld; r < kAll; ++r)
    joining.emplace_back([&, r](Report& report) {
      auto c = Communicator::connect(job.board().await(1), r, kAll, options());
      report.say(c ? reduce_and_check(*c) : c.error().message);
    });
  for (const std::string& said : job.join()) EXPECT_EQ(said, "");
  for (tests::Process& p : joining) EXPECT_EQ(p.join().said, "");
}

// Rank 1 computes; its other thread aborts, while the rest waits for it inside a call.
TEST_P(Lifecycle, AnAbortFromAnotherThreadEndsTheCallsOfAllRanksAndNamesTheOneWhoAborted) {
  const auto begin = Clock::now();
  const auto said = ConnectedJob(3, options(), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
                      if (!c.barrier()) return "no barrier";  // opens the connections
                      std::thread aborts;
                      if (c.rank() == 1)
                        aborts = std::thread([c]() mutable {
                          std::this_thread::sleep_for(100ms);
                          c.abort();
                        });
                      Status s;
                      if (c.rank() == 1) {
                        aborts.join();
                        s = c.status();
                      } else {
                        while (s) s = c.barrier();
                      }
                      if (s || s.error().code != Code::kAborted) return "not aborted";
                      return c.barrier() ? "works again" : s.error().message;
                    }).join();
  for (const std::size_t r : {0, 2}) EXPECT_TRUE(contains(said[r], "rank 1 aborted")) << said[r];
  EXPECT_TRUE(contains(said[1], "rank 1: this rank has aborted")) << said[1];
  EXPECT_LT(Clock::now() - begin, 30s);
}

TEST_P(Lifecycle, AnAbortEndsACallOfItsOwnRankToo) {
  const auto said = ConnectedJob(2, options(), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
                      if (!c.barrier()) return "no barrier";
                      if (c.rank() == 1) {  // never calls, but looks
                        while (c.status()) std::this_thread::sleep_for(1ms);
                        return c.status().error().message;
                      }
                      std::thread aborts([c]() mutable {
                        std::this_thread::sleep_for(100ms);
                        c.abort();
                      });
                      const Status s = c.barrier();
                      aborts.join();
                      return s ? "well"
                             : s.error().ranks.size() != 1
                                 ? "who?"
                                 : s.error().message + fmt::format(", {}", s.error().ranks[0]);
                    }).join();
  EXPECT_TRUE(contains(said[0], "this rank has aborted, 0")) << said[0];
  EXPECT_TRUE(contains(said[1], "rank 0 aborted")) << said[1];
}

TEST_P(Lifecycle, AMonitoredBarrierNamesAllLateRanksOnEveryRankThatCame) {
  const auto said = ConnectedJob(5, options(), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
                      if (const Status s = c.monitored_barrier(30s); !s) return s.error().message;
                      if (c.rank() == 2 || c.rank() == 4) std::this_thread::sleep_for(1500ms);
                      const Status s = c.monitored_barrier(300ms);
                      return s ? "well" : s.error().message;
                    }).join();
  for (const std::size_t r : {0, 1, 3}) EXPECT_TRUE(contains(said[r], "300 ms for ranks 2, 4")) << said[r];
  for (const std::size_t r : {2, 4}) EXPECT_FALSE(contains(said[r], "well")) << said[r];
}

TEST_P(Lifecycle, AMonitoredBarrierOfZeroWaitsAsLongAsTheCommunicator) {
  const auto said = ConnectedJob(2, options(), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
                      if (c.rank() == 1) std::this_thread::sleep_for(300ms);
                      const Status s = c.monitored_barrier(0ms);
                      return s ? "well" : s.error().message;
                    }).join();
  for (const std::string& one : said) EXPECT_EQ(one, "well");
}

TEST_P(Lifecycle, GrowingByAnEmptyIdIsRefusedOnAllRanks) {
  const auto said = ConnectedJob(2, options(), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
                      const auto grown = c.grow(UniqueId{}, 3);
                      if (grown || grown.error().code != Code::kInvalidArgument) return "not refused";
                      return c.barrier() ? "well" : "broken";
                    }).join();
  for (const std::string& one : said) EXPECT_EQ(one, "well");
}

TEST_P(Lifecycle, AnAbortDuringAMonitoredBarrierIsSaidOfThatCall) {
  const auto said = ConnectedJob(2, options(), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
                      if (!c.barrier()) return "no barrier";
                      if (c.rank() == 1) return c.abort(), "aborted";
                      const Status s = c.monitored_barrier(30s);
                      return s ? "well" : s.error().message;
                    }).join();
  EXPECT_TRUE(contains(said[0], "monitored_barrier") && contains(said[0], "rank 1 aborted")) << said[0];
  EXPECT_FALSE(contains(said[0], "exchange")) << said[0];
}

TEST_P(Lifecycle, AMonitoredBarrierWithoutRankZeroNamesIt) {
  const auto said = ConnectedJob(2, options(), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
                      if (!c.barrier()) return "no barrier";
                      if (c.rank() == 0) std::this_thread::sleep_for(2500ms);
                      const Status s = c.monitored_barrier(200ms);
                      return s ? "well" : s.error().message;
                    }).join();
  EXPECT_TRUE(contains(said[1], "for rank 0")) << said[1];
}

TEST_P(Lifecycle, ARankThatIsLateForAMonitoredBarrierReadsATimeoutOfItsOwn) {
  ConnectedJob job(2, options(), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    if (!c.barrier()) return "no barrier";
    if (c.rank() == 1) std::this_thread::sleep_for(1500ms);
    const Status late = c.monitored_barrier(200ms);
    if (late) return "ok";
    return fmt::format("{} of {} {}", late.error().code == Code::kTimeout, fmt::join(late.error().ranks, ","),
                       late.error().message);
  });
  for (const std::string& said : job.join()) EXPECT_TRUE(said.starts_with("true of 1 ")) << said;
}

TEST_P(Lifecycle, GrowingEndsWhenARankHereDies) {
  ConnectedJob job(2, options(), [](Communicator& c, Report& report, NoticeBoard&) -> std::string {
    auto place = MeetingPlace::open(3).value();
    if (!c.barrier()) return "no barrier";
    report.say("running ");
    if (c.rank() == 1) (void)c.grow(place.id(), 3);  // rank 0's id counts: it waits for rank 2, who never comes
    const auto grown = c.grow(place.id(), 3);
    if (grown) return "ok";
    return fmt::format("died {} of {}: {}", grown.error().code == Code::kPeerDied, fmt::join(grown.error().ranks, ","),
                       grown.error().message);
  });
  job.await_running();
  std::this_thread::sleep_for(300ms);
  job[1].send(SIGKILL);
  const std::string said = job.join({1})[0];
  EXPECT_TRUE(contains(said, "died true of 1: ")) << said;
}

TEST_P(Lifecycle, ARankThatWasGivenUpWhileItWasStoppedGetsNoGroup) {
  ConnectedJob job(3, options(1s), [](Communicator& c, Report& report, NoticeBoard&) -> std::string {
    if (!c.barrier()) return "no barrier";
    report.say("running ");
    if (c.rank() == 1) raise(SIGSTOP);
    const auto group = c.split(0);
    return group ? "has a group" : group.error().message;
  });
  job.await_running();
  std::this_thread::sleep_for(3500ms);
  job[1].send(SIGCONT);
  for (const std::string& said : job.join()) EXPECT_FALSE(contains(said, "has a group")) << said;
}

TEST_P(Lifecycle, BroadcastsOfDifferentRootsAreNamedAtTheLatestByFinalize) {
  ConnectedJob job(2, options(), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    std::vector<float> x(4, 1);
    Status status = c.broadcast<float>(x, c.rank());
    if (status) status = c.finalize();
    if (status) return "ok";
    return fmt::format("field {}; {}", status.error().field, status.error().message);
  });
  int named = 0;
  for (const std::string& said : job.join()) {
    EXPECT_NE(said, "running ok") << said;
    named += contains(said, "field root; ");
  }
  EXPECT_GE(named, 1);
}

TEST_P(Lifecycle, TheDeathOfAPeerIsSeenWithoutCallingAnything) {
  ConnectedJob job(2, options(), [](Communicator& c, Report& report, NoticeBoard&) -> std::string {
    if (!c.barrier()) return "no barrier";
    report.say("running ");
    for (;;) {
      if (const Status s = c.status(); !s) return s.error().message;
      std::this_thread::sleep_for(1ms);
    }
  });
  job.await_running();
  job[0].send(SIGKILL);
  EXPECT_TRUE(contains(job.join({0})[1], "rank 0 "));
}

TEST_P(Lifecycle, AFinalizedCommunicatorDoesNothingMore) {
  const auto said =
      ConnectedJob(2, options(), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
        std::vector<std::int32_t> data(100, 1);
        auto work = c.start({.in = data.data(), .out = data.data(), .count = data.size(), .type = DataType::kInt32});
        if (!work || !c.finalize()) return "not finalized";
        if (data[99] != 2) return "a started operation was lost";
        return c.barrier() ? "works on" : c.barrier().error().message;
      }).join();
  for (const std::string& s : said) EXPECT_TRUE(contains(s, "finalized")) << s;
}

// One shape, in turn in memory that peers may reach and in memory that they do not.
TEST_P(Lifecycle, MemoryOfBothKindsServesOneShapeInTurn) {
  const auto said = ConnectedJob(2, options(), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
                      constexpr std::size_t kCount = 5000;
                      auto memory = c.allocate(kCount * sizeof(std::int32_t));
                      if (!memory) return memory.error().message;
                      std::vector<std::int32_t> own(kCount);
                      for (int round = 0; round < 6; ++round) {
                        const std::span<std::int32_t> data =
                            round % 2 == 0 ? std::span(own) : memory->as<std::int32_t>();
                        std::ranges::fill(data, c.rank() + round);
                        if (auto s = c.all_reduce<std::int32_t>(data, data); !s) return s.error().message;
                        if (std::ranges::any_of(data, [&](std::int32_t x) { return x != 1 + 2 * round; }))
                          return fmt::format("wrong in round {}", round);
                      }
                      return "";
                    }).join();
  for (const std::string& s : said) EXPECT_EQ(s, "");
}

TEST_P(Lifecycle, ConnectingDoesNotBlockWhoStartsIt) {
  const auto place = MeetingPlace::open(2, options()).value();
  auto first = Communicator::start_connect(place.id(), 0, 2, options());
  EXPECT_FALSE(first.ready());
  auto second = Communicator::start_connect(place.id(), 1, 2, options());
  auto a = first.take(), b = second.take();
  ASSERT_TRUE(a && b) << (a ? "" : a.error().message) << (b ? "" : b.error().message);
  std::thread other([&] { EXPECT_EQ(reduce_and_check(*b), ""); });
  EXPECT_EQ(reduce_and_check(*a), "");
  other.join();
}

}  // namespace
}  // namespace weft
