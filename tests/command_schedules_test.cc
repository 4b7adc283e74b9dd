#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"

// Schedules that are proved, written and read; machines that are drawn.
namespace weft {
namespace {

using nlohmann::json;

TEST(Command, ProvesASchedule) {
  const Answer a = weft("verify all_reduce --algo tree --ranks 24 --per-node 8 --in-place --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(json::parse(a.out).at("proved"), true);
}

TEST(Command, ProvesEveryAlgorithmForARangeOfRanks) {
  const Answer a = weft("verify --all --ranks 1..4");
  EXPECT_EQ(a.code, 0) << a.out << a.err;
  EXPECT_NE(a.out.find("all_reduce      ring "), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("proved: "), std::string::npos) << a.out;
  const json counted = json::parse(weft("verify --all --ranks 3 --json -").out);
  EXPECT_TRUE(counted.at("proved"));
  for (const json& row : counted.at("algorithms")) EXPECT_GT(row.at("schedules"), 0) << row;
}

TEST(Command, WritesASchedulesFilesAndProvesThemAgain) {
  const std::string base = testing::TempDir() + "/schedule-" + std::to_string(getpid());
  const Answer written = weft("schedule all_gather --algo bruck --ranks 5 --xml " + base + ".xml --json " + base +
                              ".json --svg " + base + ".svg");
  EXPECT_EQ(written.code, 0) << written.err;
  for (const char* kind : {".xml", ".json"}) {
    const Answer a = weft("verify " + base + kind);
    EXPECT_EQ(a.code, 0) << a.out << a.err;
    EXPECT_NE(a.out.find("proved: all_gather by bruck on 5 ranks, in place and not"), std::string::npos) << a.out;
  }
  EXPECT_NE(weft("schedule " + base + ".json --rank 4").out.find("rank 4\n    0  move chunk"), std::string::npos);
  for (const char* kind : {".xml", ".json", ".svg"}) EXPECT_TRUE(std::filesystem::remove(base + kind)) << kind;
}

TEST(Command, NamesFileLineAndStepOfACounterexample) {
  const Answer a = weft("verify " WEFT_SOURCE "/tests/fuzz/corpus/msccl_xml/cycle.xml");
  EXPECT_EQ(a.code, 1) << a.err;
  EXPECT_NE(a.out.find("cycle.xml:5: gpu 0 tb 0 step 1: deadlock"), std::string::npos) << a.out;
}

TEST(Command, DrawsAMachineCompletely) {
  const std::string file = testing::TempDir() + "/machine.svg";
  ASSERT_EQ(weft("topo --on dgx-h100 --svg " + file).code, 0);
  std::ifstream in(file);
  const std::string svg(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(svg.rfind("<svg", 0), 0u);
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
}

// Of two nodes of two ranks: a class is the places of the active ranks where nodes have unequally many, else only how
// many. 1: {1}, {1,1}, {2}, {2,2}; {1,2} and {2,1} with either place of the one.
TEST(Verify, ProvesMasksOfActiveRanksByClass) {
  const Answer all = weft("verify all_reduce --ranks 4 --per-node 2 --active all --json -");
  ASSERT_EQ(all.code, 0) << all.err;
  const json report = json::parse(all.out);
  EXPECT_EQ(report["masks"], 15);
  EXPECT_EQ(report["classes"], 8);
  EXPECT_EQ(report["proved"], true);
  const Answer one = weft("verify all_gather --algo ring --ranks 8 --per-node 4 --active 0-2,4-7");
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.out.find("1 mask of 8 ranks, 4 a node, in 1 class: 1 algorithm,"), std::string::npos) << one.out;
  for (const std::string bad :
       {"all_reduce --active ''", "all_reduce --active ,", "all_reduce --active 8", "all_reduce --active 3-1",
        "all_reduce --ranks 17 --active all", "all_reduce --active 0 --root 1"}) {
    const Answer b = weft("verify " + bad);
    EXPECT_EQ(b.code, 2) << bad;
    EXPECT_EQ(std::count(b.err.begin(), b.err.end(), '\n'), 1) << b.err;
  }
  EXPECT_NE(weft("verify all_reduce --active ''").err.find("--active: its value is empty"), std::string::npos);
}

}  // namespace
}  // namespace weft
