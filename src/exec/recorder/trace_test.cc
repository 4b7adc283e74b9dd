#include "exec/recorder/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "exec/recorder/recorder.h"
#include "exec/recorder/timeline.h"

namespace weft::recorder {
namespace {

class Traces : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string path(const std::string& name) const { return folder + "/" + name; }
  static Identity rank(Rank r) { return {.job = "job", .group = "world", .transport = "none", .rank = r, .ranks = 2}; }

  // One call of 3 to 5 with a wait of 1 inside and a slice on strand 2; in ticks, whatever those are.
  void leave(const std::string& pattern, Rank r, unsigned categories = 7) const {
    RecordPool pool(16);
    auto recorder = Recorder::open(rank(r), pool);
    ASSERT_TRUE(recorder->trace({.pattern = pattern, .categories = categories}, rank(r)));
    recorder->begin(7, 100, recorder->label({"all_reduce", "float", "ring", "Simple", 1, -1}));
    const std::uint64_t now = ticks();
    if (recorder->trace()->wants(Category::kWait)) recorder->trace()->wait(1 - r, now, ticks());
    if (recorder->trace()->wants(Category::kMove))
      recorder->trace()->move(2, {.bytes = 4096, .from = 1 - r, .to = 1 - r, .sources = 2, .destinations = 1}, now,
                              ticks());
    recorder->end(true);
  }
  const std::string folder = testing::TempDir() + "weft-traces-" + std::to_string(getpid());
};

TEST_F(Traces, OfSeveralRanksBecomeOneTimelineThatBeginsAtZero) {
  for (const Rank r : {1, 0}) leave(path("t-%r-%g.json"), r);
  const auto all = merge_traces({path("t-1-world.json"), path("t-0-world.json")});
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->ranks.size(), 2u);
  double first = 1e300;
  int calls = 0, moves = 0;
  for (const auto& e : all->events) {
    if (!e.contains("ts")) continue;
    first = std::min(first, e.at("ts").get<double>());
    EXPECT_GE(e.at("dur").get<double>(), 0);
    calls += e.at("cat") == "call" && e.at("name") == "all_reduce" && e.at("args").at("algorithm") == "ring" &&
             e.at("args").at("number") == 7 && e.at("args").at("count") == 100 && e.at("tid") == 0;
    moves += e.at("cat") == "move" && e.at("args").at("bytes") == 4096 && e.at("tid") == 3;
  }
  EXPECT_EQ(first, 0);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(moves, 2);
  for (const Rank r : {0, 1}) {
    const RankTimes& times = all->ranks[static_cast<std::size_t>(r)];
    EXPECT_EQ(times.rank, r);
    EXPECT_EQ(times.calls, 1);
    EXPECT_LE(times.waiting, times.in_calls);
    ASSERT_EQ(times.waiting_for.size(), 1u);
    EXPECT_EQ(times.waiting_for.begin()->first, 1 - r);
    EXPECT_FALSE(times.breaks_off);
  }
}

TEST_F(Traces, OfTransportsOverSocketsEndWithWhatEveryLinkCarried) {
  leave(path("%r"), 0);
  EXPECT_TRUE(merge_traces({path("0")})->ranks[0].rails.empty());
  std::ofstream(path("0"), std::ios::app)
      << R"({"name":"weft links","ph":"M","pid":0,"tid":0,"args":{"links":[)"
      << R"({"interface":"eth0","bits_per_second":1e11,"out":5,"in":7},{"interface":"eth1","bits_per_second":-1,"out":0,"in":0}]}},)"
      << "\n";
  const auto all = merge_traces({path("0")});
  ASSERT_TRUE(all) << all.error().message;
  const std::vector<Rail> expected{{.interface = "eth0", .out = 5, .in = 7, .speed = 1e11}, {.interface = "eth1"}};
  EXPECT_EQ(all->ranks[0].rails, expected);
}

TEST_F(Traces, HoldOnlyWhatTheMaskNames) {
  leave(path("%r"), 0, parse_categories("wait").value());
  const auto all = merge_traces({path("0")});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->ranks[0].calls, 0);
  EXPECT_EQ(all->ranks[0].waiting_for.size(), 1u);
  EXPECT_EQ(parse_categories("call,move").value(), 5u);
  EXPECT_EQ(parse_categories("all").value(), 7u);
  for (const char* bad : {"", "call,", "calls", "call wait"}) EXPECT_FALSE(parse_categories(bad)) << bad;
}

TEST_F(Traces, AreNeverWrittenOverAnother) {
  leave(path("%r"), 0);
  leave(path("%r"), 0);
  EXPECT_TRUE(merge_traces({path("0"), path("0.2")}));
}

TEST_F(Traces, NeedARankInTheirNameAndAFolder) {
  RecordPool pool(16);
  auto recorder = Recorder::open(rank(0), pool);
  for (const char* pattern : {"trace.json", "%q", "%r%", "/no/such/folder/%r"}) {
    const Status status = recorder->trace({.pattern = pattern, .categories = 7}, rank(0));
    ASSERT_FALSE(status) << pattern;
    EXPECT_EQ(status.error().blame, Blame::kInput);
    EXPECT_NE(status.error().message.find("WEFT_TRACE"), std::string::npos);
  }
}

TEST_F(Traces, ThatBreakOffAreReadUpToThere) {
  leave(path("%r"), 0);
  const auto size = std::filesystem::file_size(path("0"));
  std::filesystem::resize_file(path("0"), size - 20);
  const auto all = merge_traces({path("0")});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_TRUE(all->ranks[0].breaks_off);
  EXPECT_EQ(all->ranks[0].calls, 0);  // the call is the last event, since it ends last
  EXPECT_EQ(all->ranks[0].waiting_for.size(), 1u);
}

TEST_F(Traces, OthersAreRefusedWithFileAndLine) {
  std::ofstream(path("other")) << "[\n{\"name\":\"x\"},\n";
  std::ofstream(path("empty"));
  leave(path("%r"), 0);
  std::ofstream(path("0"), std::ios::app) << "nonsense\n";
  for (const char* name : {"other", "empty", "missing", "0"}) {
    const auto all = merge_traces({path(name)});
    ASSERT_FALSE(all) << name;
    EXPECT_NE(all.error().message.find(path(name)), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::recorder
