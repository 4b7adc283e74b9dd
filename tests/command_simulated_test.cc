#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "command.h"

// Machines that are simulated, and places on them.
namespace weft {
namespace {

using nlohmann::json;

TEST(Simulated, SaysWhatWasFoldedAndWhatFaultsCost) {
  const std::string bench =
      "bench all_reduce --on dgx-h100:nodes=4,net=ib-ndr,wires=switch --algo ring --proto Simple --channels 16 "
      "--min 256M --max 256M --json -";
  const json folded = json::parse(weft(bench).out).at("rows")[0],
             full = json::parse(weft(bench + " --no-fold").out).at("rows")[0];
  EXPECT_EQ(folded.at("simulation").at("folded"), 2);
  EXPECT_EQ(full.at("simulation").at("folded"), 1);
  EXPECT_NEAR(folded.at("time_us").get<double>() / full.at("time_us").get<double>(), 1, 1e-3);
  const json dead = json::parse(weft(bench + " --fault nic:1/3=down").out);
  EXPECT_EQ(dead.at("faults")[0], "nic:1/3=down");
  EXPECT_NEAR(dead.at("rows")[0].at("healthy_us").get<double>() / folded.at("time_us").get<double>(), 1, 1e-3);
  EXPECT_GT(dead.at("rows")[0].at("time_us").get<double>(), 1.1 * folded.at("time_us").get<double>());
  EXPECT_GT(dead.at("rows")[0].at("busiest").at("utilisation").get<double>(), 0.5);
}

TEST(Simulated, SaysWhatComputingAndOthersTrafficCost) {
  const std::string bench =
      "bench all_reduce --on dgx-h100:nodes=4,net=ib-ndr --algo ring --proto Simple --channels 16 --min 256M --max "
      "256M "
      "--json - ";
  const json computing = json::parse(weft(bench + "--compute 1ms").out);
  EXPECT_EQ(computing.at("compute"), "1ms");
  const json both = computing.at("rows")[0].at("computing");
  EXPECT_EQ(both.at("alone_us"), 1000);
  EXPECT_NEAR(both.at("beside_us").get<double>(), 1000 * 132 / 116.0, 2);  // 16 of 132 multiprocessors are held
  EXPECT_NEAR(both.at("overlap").get<double>(), 1, 1e-9);                  // the collective takes longer
  const json loaded = json::parse(weft(bench + "--load uniform=50%").out);
  EXPECT_EQ(loaded.at("loads")[0], "uniform=50%");
  const json row = loaded.at("rows")[0];
  EXPECT_GT(row.at("time_us").get<double>(), 1.5 * row.at("healthy_us").get<double>());
  EXPECT_LT(row.at("time_us").get<double>(), 2.1 * row.at("healthy_us").get<double>());
}

TEST(Simulated, ARunOfTooManyEventsStopsWithWhatItKnows) {
  const Answer a = weft("bench all_reduce --on dgx-h100 --min 1M --max 1M --no-fold --max-events 10");
  EXPECT_EQ(a.code, 1);
  EXPECT_NE(a.err.find("stopped after 10 events"), std::string::npos) << a.err;
}

TEST(Simulated, ATimelineHasASpanOfEveryRankAndALevelOfLinks) {
  const std::string file = testing::TempDir() + "/weft-timeline-" + std::to_string(getpid()) + ".json";
  const Answer a = weft("bench all_reduce --on dgx-h100 --min 1M --max 1M --timeline " + file);
  EXPECT_EQ(a.code, 0) << a.err;
  std::ifstream in(file);
  const json trace = json::parse(in);
  std::set<int> ranks;
  double busiest = 0;
  for (const json& e : trace.at("traceEvents")) {
    if (e.at("ph") == "X" && e.at("pid").is_number()) ranks.insert(e.at("pid").get<int>());
    if (e.at("ph") == "C") busiest = std::max(busiest, e.at("args").at("% used").get<double>());
  }
  EXPECT_EQ(ranks.size(), 8u);
  EXPECT_GT(busiest, 10);
  EXPECT_LE(busiest, 100.1);
  std::filesystem::remove(file);
}

TEST(Command, ScatteredNodesOfAnOversubscribedNetworkAreSlower) {
  const std::string file = testing::TempDir() + "/place.json";
  // Leaves of 6 nodes, four NICs to an uplink: nodes at four leaves share far fewer ports than nodes at one.
  const Answer done =
      weft("place --on dgx-h100:nodes=64,wires=fat-tree,oversub=4 --given node[0,6,12,18] --bytes 256M --json " + file);
  ASSERT_EQ(done.code, 0) << done.err;
  std::ifstream stream(file);
  const json report = json::parse(stream);
  EXPECT_GT(report["slowdown"], 1.2);
  EXPECT_EQ(report["chosen"]["leaf_groups"], 1);
  EXPECT_EQ(report["given"]["leaf_groups"], 4);
}

TEST(Command, NodesOfMoreLeafSwitchesAreChosenWhereTheirUplinksCount) {
  const std::string file = testing::TempDir() + "/spread.json", conf = testing::TempDir() + "/leaves.conf";
  std::ofstream(conf) << "SwitchName=s0 Nodes=a[0-3]\nSwitchName=s1 Nodes=a[4-7]\nSwitchName=s2 Nodes=a[8-11]\n"
                         "SwitchName=s3 Nodes=a[12-15]\nSwitchName=top Switches=s[0-3]\n";
  // Every leaf brings as many uplinks as one node has NICs: four nodes of two leaves share two nodes' worth of them for
  // half of what they send each other, those of four leaves have four for three quarters.
  const Answer done = weft("place --on " + conf + ":node=dgx-h100,net=ib-ndr,oversub=4 --collective all_to_all" +
                           " --given \"a[0,4,8,12,1,5,9,13]\" --bytes 256M --json " + file);
  ASSERT_EQ(done.code, 0) << done.err;
  std::ifstream stream(file);
  const json report = json::parse(stream);
  EXPECT_GE(report["slowdown"], 0.999) << "what is chosen is never slower";
  EXPECT_EQ(report["chosen"]["leaf_groups"], 4);
}

TEST(Command, ATrainingStepIsALoadOfPlacement) {
  const Answer a = weft(
      "place --on dgx-h100:nodes=8,wires=fat-tree,oversub=4 --nodes 2 --train "
      "llama3-8b:tp=8,global-batch=16 --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  const json report = json::parse(a.out);
  EXPECT_EQ(report["train"], "llama3-8b:tp=8,global-batch=16");
  EXPECT_GT(report["chosen"]["time_us"], 1e5) << "a step of 131072 tokens of 8B parameters takes seconds on 16 GPUs";
}

TEST(Command, AScheduleFromAFileRunsHereAndSimulatedForItsRanksOnly) {
  const std::string file = testing::TempDir() + "/tree4.json";
  ASSERT_EQ(weft("schedule all_reduce --algo tree --ranks 4 --json " + file).code, 0);
  for (const std::string where : {"--transport threads", "--on dgx-h100"}) {
    const Answer done =
        weft("bench all_reduce -n 4 --max 64K --factor 64 --check --json - --algo " + file + " " + where);
    ASSERT_EQ(done.code, 0) << done.err;
    const json results = json::parse(done.out);
    for (const json& row : results["rows"]) {
      EXPECT_EQ(row["algorithm"], "tree");
      EXPECT_EQ(row["errors"], 0);
      EXPECT_GT(row["predicted_us"], 0);
    }
    const Answer refused = weft("bench all_reduce -n 3 --algo " + file + " " + where);
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("is written for 4 ranks"), std::string::npos) << refused.err;
  }
}

TEST(Command, SimulatesWithCheckedResultsAsJson) {
  const Answer a = weft("bench all_reduce --on dgx-h100 --min 8 --max 1M --factor 16 --check --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  const json report = json::parse(a.out);
  EXPECT_EQ(report.at("schema"), "weft.bench/3");
  EXPECT_EQ(report.at("world"), "simulated");
  EXPECT_EQ(report.at("ranks"), 8);
  ASSERT_EQ(report.at("rows").size(), 5u);  // 8, 128, 2K, 32K, 512K
  for (const json& row : report.at("rows")) {
    EXPECT_EQ(row.at("errors"), 0);
    EXPECT_GT(row.at("time_us"), 0);
    // algbw = bytes / time; busbw = algbw * 2 * 7 / 8 (nccl-tests).
    EXPECT_NEAR(row.at("busbw_GBps").get<double>(),
                row.at("bytes").get<double>() / row.at("time_us").get<double>() * 1e-3 * 1.75, 1e-6);
    EXPECT_LE(row.at("of_limit"), 1.0);
  }
}

TEST(Command, SimulatesAnAverageOfIntegersAsItIsTakenForReal) {
  const Answer a = weft("bench all_reduce --on dgx-h100 --min 4K --max 4K --dtype int32 --op avg --check --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(json::parse(a.out).at("rows").at(0).at("errors"), 0);
}

TEST(Command, SaysWhyLoadAndStoreCannotCrossANetwork) {
  const Answer a = weft("explain all_reduce --bytes 1M --on dgx-h100:nodes=2,net=ib-ndr --algo two_shot");
  EXPECT_EQ(a.code, 1);
  EXPECT_NE(a.out.find("NET path"), std::string::npos) << a.out;
}

TEST(Command, TransfersOverNvlinkAreNotTranslatedByTheHostsIommu) {
  const auto said = [](const std::string& path) {
    return weft("topo --on dgx-h100:iommu=on --path " + path + " --transfer 1M --working-set 64M").out;
  };
  EXPECT_EQ(said("gpu0 gpu1").find("IOTLB"), std::string::npos) << said("gpu0 gpu1");
  EXPECT_NE(said("gpu0 nic0").find("IOTLB"), std::string::npos) << said("gpu0 nic0");
}

TEST(Command, OtherLibrariesRulesChooseWherePublishedAndAreRefusedElsewhere) {
  const Answer rccl = weft("bench reduce_scatter --on mi300x --tuner rccl --min 1M --max 1M");
  EXPECT_EQ(rccl.code, 0) << rccl.err;
  EXPECT_NE(rccl.out.find("ring      LL "), std::string::npos) << rccl.out;
  EXPECT_NE(weft("bench all_reduce --on mi300x --tuner rcl").err.find("also rccl, oneccl, neuron"), std::string::npos);
  const Answer elsewhere = weft("bench all_reduce --on dgx-h100 --tuner rccl --min 1M --max 1M");
  EXPECT_EQ(elsewhere.code, 2);
  EXPECT_NE(elsewhere.err.find("no published rule of it is for all_reduce on dgx-h100"), std::string::npos)
      << elsewhere.err;
}

TEST(Command, AMachineTooSmallForTheProgramIsRefusedBeforeItRuns) {
  const Answer refused = weft("run -n 12 --sim dgx-h100 echo started");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_NE(refused.err.find("-n 12: dgx-h100 has 8 ranks"), std::string::npos) << refused.err;
}

TEST(Command, ATransferWithoutAWorkingSetUsesOneBuffer) {
  const std::string to = "topo --on dgx-h100:iommu=on --path gpu0 nic0 --transfer 64K";
  const Answer one = weft(to), set = weft(to + " --working-set 64K");
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, set.out);
  EXPECT_NE(one.out.find("hold 5.50 us for a translation"), std::string::npos) << one.out;
  const Answer none = weft("topo --on dgx-h100:iommu=on --path gpu0 nic0 --transfer 0");
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.out, "");
}

TEST(Command, JoinsTheTimelinesOfRanks) {
  const std::string folder = testing::TempDir() + "/weft-timelines-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  setenv("WEFT_TRACE", (folder + "/t-%r.json").c_str(), 1);
  const Answer ran = weft("bench all_reduce --ranks 2 --min 64 --max 64 --iters 10");
  unsetenv("WEFT_TRACE");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Answer joined =
      weft("trace " + folder + "/t-0.json " + folder + "/t-1.json --out " + folder + "/all.json --json -");
  ASSERT_EQ(joined.code, 0) << joined.err;
  const json summary = json::parse(joined.out);
  ASSERT_EQ(summary["ranks"].size(), 2u);
  EXPECT_GE(summary["ranks"][0]["calls"], 10);
  EXPECT_EQ(summary["ranks"][0]["calls"], summary["ranks"][1]["calls"]);
  const json all = json::parse(std::ifstream(folder + "/all.json"));
  int calls = 0;
  for (const json& event : all["traceEvents"]) calls += event.value("cat", "") == "call";
  EXPECT_EQ(calls, 2 * summary["ranks"][0]["calls"].get<int>());
  const std::string twice = weft("trace " + folder + "/t-1.json " + folder + "/t-1.json").out;
  EXPECT_NE(twice.find("  no file of rank 0\n  several files of rank 1: "), std::string::npos) << twice;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft
