// Communicators that are split, lose ranks, get new ones, are aborted and finalized: ranks as processes that meet by
// unique ids, over shared memory, TCP, UCX, and shared memory together with each of them. Timeouts are generous, for
// machines may be busy.

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/result.h"
#include "net/ucx/ucx.h"
#include "tests/connected_job.h"
#include "weft/group.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using tests::ConnectedJob;
using tests::NoticeBoard;
using tests::reduce_and_check;
using tests::Report;
using Clock = std::chrono::steady_clock;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Lifecycle : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::string(GetParam()).ends_with("ucx")) return;
    if (const Status s = net::ucx::available(); !s) GTEST_SKIP() << s.error().message;
  }
  ConnectOptions options(std::chrono::milliseconds timeout = 60s) const {
    const std::string over = GetParam();
    if (over == "mixed") return {.node = "machine", .timeout = timeout};
    if (over == "mixed_ucx") return {.transport = "shm+ucx", .node = "machine", .timeout = timeout};
    return {.transport = over, .timeout = timeout};
  }
};

INSTANTIATE_TEST_SUITE_P(Over, Lifecycle, testing::Values("shm", "tcp", "ucx", "mixed", "mixed_ucx"),
                         [](const auto& info) { return std::string(info.param); });

// Reduces until the communicator breaks, then goes on with the survivors, until `goal` successive calls went well.
std::string stream_and_shrink(Communicator& comm, Report& report, Rank goal_ranks) {
  Communicator current = comm;
  for (int good = 0;;) {
    const std::string wrong = reduce_and_check(current, 20000);
    if (wrong.empty()) {
      if (++good == 10) report.say("running ");
      if (good >= 50 && current.ranks() == goal_ranks)
        return fmt::format("well as {} of {}", current.rank(), goal_ranks);
      continue;
    }
    if (contains(wrong, "instead of")) return wrong;
    auto survivors = current.shrink();
    if (!survivors) return survivors.error().message;
    current = std::move(*survivors);
    if (current.ranks() < goal_ranks) return fmt::format("only {} go on", current.ranks());
    good = 11;
  }
}

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

TEST_P(Lifecycle, RowsAndColumnsAreCommunicatorsOfTheirOwn) {
  constexpr Rank kColumns = 2;
  const auto said = ConnectedJob(6, options(), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
                      auto row = c.split(c.rank() / kColumns), column = c.split(c.rank() % kColumns);
                      if (!row || !column) return "no split";
                      if (row->ranks() != 2 || row->rank() != c.rank() % kColumns) return "wrong row";
                      if (column->ranks() != 3 || column->rank() != c.rank() / kColumns) return "wrong column";
                      for (int round = 0; round < 20; ++round)  // interleaved
                        for (Communicator* of : {&*row, &c, &*column})
                          if (const std::string wrong = reduce_and_check(*of); !wrong.empty()) return wrong;
                      // The sum of a row's ranks, summed over a column, is the sum of all.
                      std::int32_t mine = c.rank(), in_row = 0, all = 0;
                      const std::span<const std::int32_t> a(&mine, 1), b(&in_row, 1);
                      if (!row->all_reduce(a, std::span(&in_row, 1)) || !column->all_reduce(b, std::span(&all, 1)))
                        return "no sum";
                      return all == 15 ? "" : fmt::format("{} instead of 15", all);
                    }).join();
  for (const std::string& s : said) EXPECT_EQ(s, "");
}

TEST_P(Lifecycle, KeysOrderRanksAndRanksWithoutColorGetNone) {
  const auto said = ConnectedJob(4, options(), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
                      auto reversed = c.split(c.rank() == 1 ? Communicator::kNoColor : 0, -c.rank());
                      if (!reversed) return reversed.error().message;
                      if (c.rank() == 1) return *reversed ? "joined" : "";
                      const Rank expected = c.rank() == 3 ? 0 : c.rank() == 2 ? 1 : 2;
                      if (reversed->rank() != expected) return fmt::format("rank {}", reversed->rank());
                      if (c.split(-2).error().code != Code::kInvalidArgument) return "a negative color";
                      return reduce_and_check(*reversed);
                    }).join();
  for (const std::string& s : said) EXPECT_EQ(s, "");
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

std::ptrdiff_t entries_of(const std::string& folder, const std::string& beginning = "") {
  return std::count_if(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator(),
                       [&](const auto& entry) { return entry.path().filename().string().starts_with(beginning); });
}

TEST_P(Lifecycle, FiftySplitsLeaveNoDescriptorAndNoSharedMemory) {
  const auto said = ConnectedJob(2, options(), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
                      std::ptrdiff_t descriptors = 0, files = 0;
                      const auto records = [] {  // of this process: other tests may run
                        return entries_of(fmt::format("/dev/shm/weft-{}", geteuid()), fmt::format("{}-", getpid()));
                      };
                      for (int round = 0; round <= 50; ++round) {
                        auto child = c.split(0);
                        if (!child) return child.error().message;
                        if (const std::string wrong = reduce_and_check(*child); !wrong.empty()) return wrong;
                        child = Communicator(nullptr);
                        if (!c.barrier()) return "no barrier";
                        if (round == 0) descriptors = entries_of("/proc/self/fd"), files = records();
                      }
                      if (entries_of("/proc/self/fd") > descriptors) return "descriptors were left";
                      return records() > files ? "records were left" : "";
                    }).join();
  for (const std::string& s : said) EXPECT_EQ(s, "");
}

TEST_P(Lifecycle, AGroupOutlivesTheCommunicatorItCameFromAndSurvivesADeath) {
  ConnectedJob job(3, options(), [](Communicator& c, Report& report, NoticeBoard&) -> std::string {
    auto group = c.split(0);
    if (!group) return group.error().message;
    auto grandchild = group->split(0, -c.rank());
    if (!grandchild) return grandchild.error().message;
    c = Communicator(nullptr);
    group = Communicator(nullptr);
    return stream_and_shrink(*grandchild, report, 2);
  });
  job.await_running();
  job[1].send(SIGKILL);  // in the middle of the grandchild, too
  const auto said = job.join({1});
  EXPECT_TRUE(contains(said[0], "well as 1 of 2")) << said[0];
  EXPECT_TRUE(contains(said[2], "well as 0 of 2")) << said[2];
}

// Groups that lie in their parent's segment: its memory is theirs, too, and each may allocate WEFT_HEAP.
TEST(GroupsOverShm, ReachTheirParentsMemoryAndHaveAHeapEach) {
  setenv("WEFT_HEAP", "1M", 1);
  ConnectedJob job(2, {.transport = "shm", .timeout = 60s}, [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    constexpr std::size_t kBytes = 700000, kCount = kBytes / sizeof(std::int32_t);
    auto of_parent = c.allocate(kBytes);
    auto group = c.split(0);
    if (!of_parent || !group) return "no memory, or no group";
    if (c.allocate(kBytes)) return "the parent got more than WEFT_HEAP";
    auto of_group = group->allocate(kBytes);
    if (!of_group) return of_group.error().message;
    if (group->allocate(kBytes)) return "the group got more than WEFT_HEAP";
    for (Communicator* comm : {&c, &*group})
      for (Memory* memory : {&*of_parent, &*of_group}) {
        const auto data = memory->as<std::int32_t>();
        std::ranges::fill(data, c.rank() + 1);
        if (auto s = comm->run({.in = data.data(), .out = data.data(), .count = kCount, .type = DataType::kInt32}); !s)
          return s.error().message;
        if (std::ranges::any_of(data, [](std::int32_t x) { return x != 3; })) return "a wrong sum";
        if (comm->last_choice().protocol != "Direct") return "not reached: " + comm->last_choice().protocol;
      }
    return "";
  });
  unsetenv("WEFT_HEAP");
  for (const std::string& s : job.join()) EXPECT_EQ(s, "");
}

// Groups that come and go, in the segment, and with segments of their own where it has no room.
TEST(GroupsOverShm, WorkWithAndWithoutRoomInTheSegment) {
  rlimit before{}, tight{};
  getrlimit(RLIMIT_AS, &before);
  tight = before;
  tight.rlim_cur = rlim_t{1} << 46;  // a limit is a limit: then there is no room
  for (const rlimit& limit : {before, tight}) {
    setrlimit(RLIMIT_AS, &limit);
    const auto said =
        ConnectedJob(3, {.transport = "shm", .timeout = 60s},
                     [](Communicator& c, Report&, NoticeBoard&) -> std::string {
                       std::vector<Communicator> groups;
                       for (int round = 0; round < 30; ++round) {
                         auto group = c.split(c.rank() == round % 3 ? 1 : 0, round % 2 == 0 ? c.rank() : -c.rank());
                         if (!group) return group.error().message;
                         if (group->ranks() != (c.rank() == round % 3 ? 1 : 2)) return "a wrong number of ranks";
                         groups.push_back(std::move(*group));
                         if (round % 4 == 3) groups.erase(groups.begin());
                         for (Communicator& g : groups)
                           if (const std::string wrong = reduce_and_check(g, 3000); !wrong.empty()) return wrong;
                       }
                       return "";
                     })
            .join();
    for (const std::string& s : said) EXPECT_EQ(s, "");
  }
  setrlimit(RLIMIT_AS, &before);
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

TEST(UniqueIds, AreTextAndBack) {
  const auto place = MeetingPlace::open(1).value();
  EXPECT_EQ(UniqueId::parse(place.id().text()).value(), place.id());
  EXPECT_EQ(UniqueId::parse("f00d").error().code, Code::kInvalidArgument);
  EXPECT_EQ(Communicator::connect(UniqueId{}, 0, 1).error().code, Code::kInvalidArgument);
  EXPECT_EQ(MeetingPlace::open(0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Communicator::connect(place.id(), 0, 1, {.transport = "pigeon"}).error().code, Code::kInvalidArgument);
  auto alone = Communicator::connect(place.id(), 0, 1);
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ(alone->grow(place.id(), 1).error().code, Code::kInvalidArgument);
}

// All ranks of a communicator in one thread: nothing may wait for one of them alone.
TEST(Groups, OneThreadRunsAllRanks) {
  constexpr std::size_t kRanks = 3;
  auto comms = Communicator::threads(kRanks).value();
  std::vector<std::vector<float>> data(kRanks, std::vector<float>(5000, 1)), from(kRanks, std::vector<float>(100));
  Group group;
  for (std::size_t r = 0; r < kRanks; ++r) {
    const auto next = static_cast<Rank>((r + 1) % kRanks), before = static_cast<Rank>((r + kRanks - 1) % kRanks);
    group.send(comms[r], std::span<const float>(data[r]).first(100), next);
    group.add(comms[r], Request{.in = data[r].data(), .out = data[r].data(), .count = 5000});
    group.receive(comms[r], std::span(from[r]), before);
  }
  const Status s = group.run();
  ASSERT_TRUE(s) << s.error().message;
  for (std::size_t r = 0; r < kRanks; ++r) {
    EXPECT_EQ(data[r][4999], 3);
    EXPECT_EQ(from[r][99], 1);
  }
}

TEST(Groups, AThreadThatLeavesIsShrunkAway) {
  auto comms = Communicator::threads(3).value();
  std::vector<std::thread> threads;
  for (auto& c : comms)
    threads.emplace_back([own = std::move(c)]() mutable {
      if (own.rank() == 1) return;
      EXPECT_FALSE(own.barrier());
      auto rest = own.shrink();
      ASSERT_TRUE(rest) << rest.error().message;
      EXPECT_EQ(rest->ranks(), 2);
      EXPECT_EQ(reduce_and_check(*rest), "");
      auto alone = rest->split(rest->rank());
      ASSERT_TRUE(alone) << alone.error().message;
      EXPECT_EQ(reduce_and_check(*alone), "");
    });
  for (auto& t : threads) t.join();
}

}  // namespace
}  // namespace weft
