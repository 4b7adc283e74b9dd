// Ranks as processes that are killed, stopped, leave, or never come: the others say which one, in time, and nothing is
// left behind. Limits are generous; machines may be busy.

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "net/shm/shm.h"
#include "tests/communicators.h"
#include "tests/processes.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using tests::Outcome;
using tests::Process;
using tests::Report;
using Clock = std::chrono::steady_clock;

constexpr auto kLong = 60s;  // a timeout that no test should need

std::string text(const Error& error) { return fmt::format("code {}: {}", static_cast<int>(error.code), error.message); }
std::string code(Code c) { return fmt::format("code {}:", static_cast<int>(c)); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A job whose ranks reduce and check without end. A rank says "running" after its first ten calls, and the error that
// stops it.
class Job {
 public:
  Job(Rank ranks, std::string algorithm, std::chrono::milliseconds timeout) : id_(tests::fresh_id("failure")) {
    for (Rank r = 0; r < ranks; ++r)
      processes_.emplace_back([=, id = id_](Report& report) {
        auto c = tests::shm_communicator(id, r, ranks, timeout);
        if (!c) return report.say(text(c.error()));
        report.say(stream(*c, algorithm, report));
      });
  }

  Process& operator[](Rank r) { return processes_[static_cast<std::size_t>(r)]; }
  const std::string& id() const { return id_; }
  void await_running() {
    for (Process& p : processes_) p.await_word();
  }

 private:
  static std::string stream(Communicator& c, const std::string& algorithm, Report& report) {
    std::vector<std::int32_t> in(20000, 1), out(in.size());
    for (int call = 0;; ++call) {
      if (call == 10) report.say("running ");
      const Status s = c.run(
          {.in = in.data(), .out = out.data(), .count = in.size(), .type = DataType::kInt32, .algorithm = algorithm});
      if (!s) return text(s.error()) + (c.barrier() ? " but then it works again" : "");
      for (const std::int32_t x : out)
        if (x != c.ranks()) return fmt::format("{} instead of {}", x, c.ranks());
    }
  }

  std::string id_;
  std::vector<Process> processes_;
};

class Failure : public testing::TestWithParam<const char*> {};

TEST_P(Failure, AKilledRankIsNamedByEverySurvivorLongBeforeTheTimeout) {
  constexpr Rank kRanks = 4;
  for (int repeat = 0; repeat < 4; ++repeat) {
    const Rank victim = (repeat * 3 + 2) % kRanks;
    Job job(kRanks, GetParam(), kLong);
    job.await_running();
    std::this_thread::sleep_for(std::chrono::microseconds(700 * repeat));  // anywhere in a call
    job[victim].send(SIGKILL);
    const auto killed = Clock::now();
    for (Rank r = 0; r < kRanks; ++r) {
      const Outcome outcome = job[r].join();
      if (r == victim) continue;
      EXPECT_TRUE(outcome.ended_well()) << "rank " << r << " " << outcome.how();
      EXPECT_TRUE(contains(outcome.said, code(Code::kPeerDied))) << outcome.said;
      EXPECT_TRUE(contains(outcome.said, fmt::format("rank {} ", victim))) << outcome.said;
      EXPECT_TRUE(contains(outcome.said, fmt::format("rank {}: all_reduce #", r))) << outcome.said;
      EXPECT_FALSE(contains(outcome.said, "works again")) << outcome.said;
    }
    EXPECT_LT(Clock::now() - killed, kLong / 2);
    EXPECT_FALSE(tests::leaves_a_file(job.id()));
  }
}

TEST_P(Failure, AStoppedRankIsATimeoutThatNamesItAndIsToldWhenItGoesOn) {
  constexpr Rank kRanks = 4, kVictim = 1;
  Job job(kRanks, GetParam(), 500ms);
  job.await_running();
  const auto stopped = Clock::now();
  job[kVictim].send(SIGSTOP);
  int timeouts = 0;
  for (Rank r = 0; r < kRanks; ++r) {
    if (r == kVictim) continue;
    const Outcome outcome = job[r].join();
    EXPECT_TRUE(outcome.ended_well()) << outcome.how();
    timeouts += contains(outcome.said, code(Code::kTimeout));
    EXPECT_TRUE(contains(outcome.said, code(Code::kTimeout)) || contains(outcome.said, code(Code::kAborted)))
        << outcome.said;
    EXPECT_TRUE(contains(outcome.said, fmt::format("rank {} ", kVictim))) << outcome.said;
  }
  EXPECT_GE(timeouts, 1);
  EXPECT_GE(Clock::now() - stopped, 400ms);
  EXPECT_LT(Clock::now() - stopped, 30s);
  EXPECT_FALSE(tests::leaves_a_file(job.id()));
  job[kVictim].send(SIGCONT);
  const Outcome outcome = job[kVictim].join();
  EXPECT_TRUE(outcome.ended_well()) << outcome.how();
  EXPECT_TRUE(contains(outcome.said, "code")) << outcome.said;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Failure, testing::Values("ring", "tree", "one_shot", "two_shot"),
                         [](const auto& info) { return std::string(info.param); });

// Runs `body` of every rank on a communicator of its own; returns what they said.
std::vector<std::string> run(Rank ranks, std::chrono::milliseconds timeout,
                             const std::function<std::string(Communicator&)>& body) {
  const std::string id = tests::fresh_id("failure");
  std::vector<Process> processes;
  for (Rank r = 0; r < ranks; ++r)
    processes.emplace_back([&, r](Report& report) {
      auto c = tests::shm_communicator(id, r, ranks, timeout);
      report.say(c ? body(*c) : text(c.error()));
    });
  std::vector<std::string> said;
  for (Process& p : processes) {
    const Outcome outcome = p.join();
    EXPECT_TRUE(outcome.ended_well()) << outcome.how();
    said.push_back(outcome.said);
  }
  EXPECT_FALSE(tests::leaves_a_file(id));
  return said;
}

std::string barrier(Communicator& c) {
  const Status s = c.barrier();
  return s ? "well" : text(s.error());
}

TEST(Processes, ReduceAndLeaveNothingBehind) {
  for (const Rank n : {1, 2, 5})
    for (const std::string& said : run(n, kLong, barrier)) EXPECT_EQ(said, "well");
}

TEST(Processes, ARankThatReturnsWithoutCallingIsNamed) {
  const auto begin = Clock::now();
  const auto said = run(3, kLong, [](Communicator& c) { return c.rank() == 1 ? "left" : barrier(c); });
  for (const Rank r : {0, 2})
    EXPECT_TRUE(contains(said[static_cast<std::size_t>(r)], "rank 1 ")) << said[static_cast<std::size_t>(r)];
  EXPECT_LT(Clock::now() - begin, kLong / 2);
}

TEST(Processes, ARankThatExitsWithoutCleaningUpIsNamed) {
  const auto said = run(3, kLong, [](Communicator& c) -> std::string {
    if (c.rank() == 2) _exit(0);
    return barrier(c);
  });
  for (const Rank r : {0, 1})
    EXPECT_TRUE(contains(said[static_cast<std::size_t>(r)], "rank 2 ")) << said[static_cast<std::size_t>(r)];
}

// Rank 0 feeds 1, which feeds 2; rank 0 is gone before rank 1 begins, and rank 2 waits for rank 1 all the while.
TEST(Processes, ARankThatHasDoneItsPartMayGo) {
  for (const bool clean : {true, false}) {
    const auto said = run(3, kLong, [clean](Communicator& c) -> std::string {
      if (c.rank() == 1) std::this_thread::sleep_for(300ms);
      std::int32_t x = c.rank() == 0 ? 42 : 0;
      const Status s =
          c.run({.collective = Collective::kBroadcast, .in = &x, .out = &x, .count = 1, .type = DataType::kInt32});
      if (c.rank() == 0 && !clean) _exit(0);
      return s ? std::to_string(x) : text(s.error());
    });
    for (const Rank r : {1, 2}) EXPECT_EQ(said[static_cast<std::size_t>(r)], "42");
  }
}

TEST(Processes, DifferentCountsAreAMismatchAlsoThroughScratch) {
  const auto said = run(2, kLong, [](Communicator& c) {
    std::vector<float> x(1000);
    const Status s = c.run(
        {.in = x.data(), .out = x.data(), .count = 1000u - static_cast<unsigned>(c.rank()), .algorithm = "two_shot"});
    return s ? "well" : text(s.error());
  });
  for (const Rank r : {0, 1}) {
    EXPECT_TRUE(contains(said[static_cast<std::size_t>(r)], code(Code::kMismatch)))
        << said[static_cast<std::size_t>(r)];
    EXPECT_TRUE(contains(said[static_cast<std::size_t>(r)],
                         fmt::format("rank {} called all_reduce of {} float ", 1 - r, 1000 - (1 - r))));
  }
}

TEST(Processes, AllocatedMemoryIsReducedInPlaceWithoutScratch) {
  const auto said = run(3, kLong, [](Communicator& c) -> std::string {
    auto memory = c.allocate(100000 * sizeof(float));
    if (!memory) return memory.error().message;
    for (float& x : memory->as<float>()) x = static_cast<float>(c.rank());
    const auto data = memory->as<float>();
    if (const Status s = c.run({.in = data.data(), .out = data.data(), .count = data.size(), .algorithm = "two_shot"});
        !s)
      return text(s.error());
    for (const float x : data)
      if (x != 3) return "not 0 + 1 + 2";
    return "well";
  });
  for (const std::string& s : said) EXPECT_EQ(s, "well");
}

TEST(Processes, AHeapThatIsUsedUpSaysWhatToRaise) {
  const auto said = run(1, kLong, [](Communicator& c) -> std::string {  // shm_communicator() gives 16 MiB
    const auto memory = c.allocate(std::size_t{17} << 20);
    return memory ? "well" : text(memory.error());
  });
  EXPECT_TRUE(contains(said[0], code(Code::kNoResources)) && contains(said[0], "WEFT_HEAP")) << said[0];
}

}  // namespace
}  // namespace weft
