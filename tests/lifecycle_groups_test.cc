#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "base/result.h"
#include "tests/connected_job.h"
#include "tests/lifecycle.h"
#include "weft/group.h"

// Communicators that are split from others, and groups of them.
namespace weft {
namespace {

using namespace std::chrono_literals;
using tests::ConnectedJob;
using tests::NoticeBoard;
using tests::reduce_and_check;
using tests::Report;
using Clock = std::chrono::steady_clock;

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

TEST(UniqueIds, AMeetingWhoseTimeIsUpNamesWhoHasNotCome) {
  const auto place = MeetingPlace::open(4, {.timeout = std::chrono::seconds(1)}).value();
  std::vector<std::future<Result<Communicator>>> ranks;
  for (const Rank r : {0, 2})
    ranks.push_back(std::async(std::launch::async, [&place, r] {
      return Communicator::connect(place.id(), r, 4, {.transport = "tcp", .timeout = std::chrono::seconds(10)});
    }));
  for (auto& rank : ranks) {
    const auto met = rank.get();
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().code, Code::kTimeout) << met.error().message;
    EXPECT_EQ(met.error().ranks, (std::vector<Rank>{1, 3})) << met.error().message;
  }
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
