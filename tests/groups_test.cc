// Groups that were split from one communicator share its connections, and nothing else.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <functional>
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

class Groups : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::string(GetParam()).ends_with("ucx")) return;
    if (const Status s = net::ucx::available(); !s) GTEST_SKIP() << s.error().message;
  }
  ConnectOptions options() const {
    const std::string over = GetParam();
    if (over == "mixed") return {.node = "machine", .timeout = 60s};
    if (over == "mixed_ucx") return {.transport = "shm+ucx", .node = "machine", .timeout = 60s};
    return {.transport = over, .timeout = 60s};
  }
  void expect_well(Rank ranks, const ConnectedJob::RankContext& body) {
    for (const std::string& said : ConnectedJob(ranks, options(), body).join()) EXPECT_EQ(said, "");
  }
};

INSTANTIATE_TEST_SUITE_P(Over, Groups, testing::Values("shm", "tcp", "ucx", "mixed", "mixed_ucx"),
                         [](const auto& info) { return std::string(info.param); });

std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

// Ranks of one machine besides hold the segment of each group that lies on several.
TEST_P(Groups, ThreeHundredThatLiveAtOnceAddAtMostTwentyDescriptors) {
  const std::ptrdiff_t most = std::string(GetParam()).starts_with("mixed") ? 320 : 20;
  expect_well(3, [most](Communicator& c, Report&, NoticeBoard&) -> std::string {
    if (const std::string wrong = reduce_and_check(c); !wrong.empty()) return wrong;
    const std::ptrdiff_t before = descriptors();
    std::vector<Communicator> groups;
    for (int i = 0; i < 300; ++i) {
      Communicator& parent = i % 3 == 2 ? groups.back() : c;
      auto group = parent.split(0, i % 2 == 0 ? c.rank() : -c.rank());
      if (!group) return fmt::format("{}: {}", i, group.error().message);
      if (const std::string wrong = reduce_and_check(*group); !wrong.empty()) return fmt::format("{}: {}", i, wrong);
      groups.push_back(std::move(*group));
    }
    const std::ptrdiff_t more = descriptors() - before;
    return more <= most ? "" : fmt::format("{} descriptors more", more);
  });
}

TEST_P(Groups, GoOnWhenACallOfTheirParentOrOfASisterFails) {
  expect_well(3, [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    auto one = c.split(0), other = c.split(0);
    if (!one || !other) return "no groups";
    std::vector<float> data(1 << 18, 1.0F);
    const std::size_t count = data.size() - (c.rank() == 1 ? 1000 : 0);
    if (one->all_reduce<float>(std::span(data).first(count), std::span(data).first(count))) return "no mismatch";
    std::ranges::fill(data, -1.0F);
    for (int i = 0; i < 5; ++i)
      if (const std::string wrong = reduce_and_check(*other, 100000); !wrong.empty()) return wrong;
    if (c.broadcast<float>(data, c.rank() == 2 ? 1 : 0)) {
      if (c.finalize()) return "no mismatch of the roots";
    }
    *one = Communicator(nullptr);
    c = Communicator(nullptr);
    return reduce_and_check(*other, 100000);
  });
}

TEST_P(Groups, AreEndedInAnyOrder) {
  expect_well(3, [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    std::vector<Communicator> all{c};
    for (int i = 0; i < 12; ++i) {
      auto group = all[static_cast<std::size_t>(i * 7) % all.size()].split(0, i);
      if (!group) return group.error().message;
      all.push_back(std::move(*group));
    }
    c = Communicator(nullptr);
    for (int i = 0; all.size() > 1; ++i) {
      for (Communicator& group : all)
        if (const std::string wrong = reduce_and_check(group, 3000); !wrong.empty()) return wrong;
      all.erase(all.begin() + (i * 5) % static_cast<int>(all.size()));
    }
    return reduce_and_check(all.front());
  });
}

TEST_P(Groups, AreUsedByThreadsOfTheirOwn) {
  expect_well(2, [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    constexpr int kThreads = 3;
    std::vector<Communicator> groups;
    for (int i = 0; i < kThreads; ++i) {
      auto group = c.split(0);
      if (!group) return group.error().message;
      groups.push_back(std::move(*group));
    }
    std::vector<std::string> wrong(kThreads + 1);
    const auto work = [](Communicator& own, std::size_t elements, std::string& result) {
      for (int i = 0; i < 200 && result.empty(); ++i) result = reduce_and_check(own, elements);
    };
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] { work(groups[i], i * 30000 + 1, wrong[i]); });
      work(c, 5000, wrong.back());
    }
    for (const std::string& w : wrong)
      if (!w.empty()) return w;
    return "";
  });
}

// The rank that is still in the parent's split keeps what a faster one sends to the new group.
TEST_P(Groups, TakeWhatAFasterRankSendsBeforeTheyAreMade) {
  expect_well(3, [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    for (int i = 0; i < 60; ++i) {
      auto group = c.split(0, c.rank());
      if (!group) return group.error().message;
      std::vector<std::int32_t> data(40000, group->rank() == 0 ? i : -1);
      if (auto s = group->broadcast<std::int32_t>(data, 0); !s) return s.error().message;
      if (std::ranges::any_of(data, [i](std::int32_t x) { return x != i; })) return "another's data";
    }
    return "";
  });
}

// Two ranks call different things; at least one of them reads both names.
TEST_P(Groups, ErrorsNameTheCallThatTheUserMade) {
  using Calls = std::function<Status(Communicator&, const UniqueId&)>;
  const auto status_of = [](auto result) { return result ? Status() : tl::make_unexpected(result.error()); };
  const Calls splits = [&](Communicator& c, const UniqueId&) { return status_of(c.split(0)); };
  const Calls broadcasts = [](Communicator& c, const UniqueId&) {
    float x = 1;
    return c.broadcast<float>(std::span(&x, 1), 1);
  };
  const auto grows = [&](Rank ranks) -> Calls {
    return [&status_of, ranks](Communicator& c, const UniqueId& id) { return status_of(c.grow(id, ranks)); };
  };
  const auto expect_names = [&](const Calls& first, const Calls& second, const std::string& one,
                                const std::string& other) {
    bool named = false;
    const auto body = [&](Communicator& c, Report&, NoticeBoard&) -> std::string {
      auto place = MeetingPlace::open(3, {.timeout = 60s});
      if (!place) return place.error().message;
      const Status status = (c.rank() == 0 ? first : second)(c, place->id());
      return status ? "ok" : status.error().message;
    };
    for (const std::string& said : ConnectedJob(2, options(), body).join()) {
      EXPECT_NE(said, "ok");
      named |= said.find(one) != std::string::npos && said.find(other) != std::string::npos;
      EXPECT_EQ(said.find("all_gather"), std::string::npos) << said;
    }
    EXPECT_TRUE(named) << one << ", " << other;
  };
  expect_names(grows(3), grows(4), "grow to 3 ranks", "grow to 4 ranks");
  expect_names(broadcasts, splits, "broadcast of 1", "split");
  expect_names(grows(3), splits, "grow to 3 ranks", "split");
}

TEST_P(Groups, NameTheDeadRankOfAllThatHaveIt) {
  ConnectedJob job(4, options(), [](Communicator& c, Report& report, NoticeBoard&) -> std::string {
    auto with = c.split(c.rank() == 3 ? 1 : 0), all = c.split(0, -c.rank());
    if (!with || !all) return "no groups";
    if (const std::string wrong = reduce_and_check(*all); !wrong.empty()) return wrong;
    report.say("running ");
    if (c.rank() == 3) std::this_thread::sleep_for(60s);
    const Status broken = all->barrier();
    if (broken) return "no error";
    if (broken.error().code != Code::kPeerDied || broken.error().ranks != std::vector<Rank>{0})
      return broken.error().message;  // the last is the first there
    for (int i = 0; i < 3; ++i)
      if (const std::string wrong = reduce_and_check(*with, 50000); !wrong.empty()) return wrong;  // has not lost any
    auto survivors = all->shrink();
    if (!survivors) return survivors.error().message;
    return survivors->ranks() == 3 ? reduce_and_check(*survivors) : "another number";
  });
  job.await_running();
  job[3].send(SIGKILL);
  const auto said = job.join({3});
  for (Rank r = 0; r < 3; ++r) EXPECT_EQ(said[static_cast<std::size_t>(r)], "running ") << r;
}

}  // namespace
}  // namespace weft
