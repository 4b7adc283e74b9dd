#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "command.h"

// `weft explain` and `weft check`.
namespace weft {
namespace {

using nlohmann::json;

TEST(Command, ExplainsHowRanksOnGpusReachEachOther) {
  setenv("WEFT_DEVICE", "host", 1);
  const auto path = [](const std::string& arguments) {
    return json::parse(weft("explain devices --json - " + arguments).out).at("path").get<std::string>();
  };
  EXPECT_EQ(path("--gpus 0,0"), "kernels");
  EXPECT_EQ(path("--gpus 0,0 --processes"), "host memory");
  EXPECT_EQ(path("--gpus 0,0,0,0,0,0,0,0,0"), "host memory") << "more than fit";
  const Answer absent = weft("explain devices --gpus 0,7");
  EXPECT_EQ(absent.code, 2);
  EXPECT_NE(absent.err.find("device 7 of 1"), std::string::npos) << absent.err;
  unsetenv("WEFT_DEVICE");
}

// A barrier has signals and no data.
TEST(Explain, AnswersForEveryCollectiveOverSeveralNodesAndForABarrierWithoutBytes) {
  for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all",
                                 "gather", "scatter", "barrier"})
    for (const char* bytes : {"barrier" == std::string(collective) ? "0" : "1", "1M"}) {
      const Answer a =
          weft(std::string("explain ") + collective + " --bytes " + bytes + " --on dgx-h100:nodes=2,net=ib-ndr");
      EXPECT_EQ(a.code, 0) << collective << " of " << bytes << ": " << a.err;
    }
}

// The rows of nccl-tests with the times that the model gives for NCCL's choice, each times `factor`, among what people
// paste around them.
std::string nccl_table(const json& check, double factor) {
  std::string text = "user@node1:~$ ./all_reduce_perf -b 64K -e 1G -f 16 -g 1\n# nThread 1 nGpus 1 minBytes 65536\n";
  for (const json& row : check.at("rows")) {
    char line[200];
    const double us = row.at("model_us").get<double>() * factor;
    const auto bytes = row.at("bytes").get<std::int64_t>();
    std::snprintf(line, sizeof line, "%12lld %12lld  float  sum  -1 %9.2f %7.2f %7.2f  0 %9.2f %7.2f %7.2f  0\n",
                  static_cast<long long>(bytes), static_cast<long long>(bytes / 4), us, bytes / us / 1e3,
                  bytes / us / 1e3, us, bytes / us / 1e3, bytes / us / 1e3);
    text += line;
  }
  return text + "# Avg bus bandwidth : 1\nuser@node1:~$ \n";
}

TEST(Check, JudgesATableAndNamesTheFaultThatWouldExplainIt) {
  const std::string file = testing::TempDir() + "/check-" + std::to_string(getpid()) + ".txt";
  const std::string on = " --on dgx-h100:nodes=2,net=ib-ndr ";
  const auto write = [&](const std::string& text) { std::ofstream(file) << text; };
  json rows = json::array();
  for (const std::int64_t bytes :
       {std::int64_t{1} << 16, std::int64_t{1} << 28, std::int64_t{1} << 30, std::int64_t{1} << 32})
    rows.push_back({{"bytes", bytes}, {"model_us", 1e-3 * static_cast<double>(bytes)}});
  write(nccl_table({{"rows", rows}}, 1));
  const json model = json::parse(weft("check " + file + on + "--json -").out);  // for the model's times
  ASSERT_EQ(model.at("rows").size(), rows.size());

  write(nccl_table(model, 1.05));
  const Answer healthy = weft("check " + file + on);
  EXPECT_EQ(healthy.code, 0) << healthy.out << healthy.err;
  EXPECT_NE(healthy.out.find("is what the machine should deliver"), std::string::npos) << healthy.out;

  // HDR has half of NDR's rate: the table of a machine with it, held against one with NDR.
  write(nccl_table(json::parse(weft("check " + file + " --on dgx-h100:nodes=2,net=ib-hdr --json -").out), 1));
  const Answer slow = weft("check " + file + on);
  EXPECT_EQ(slow.code, 1) << slow.out << slow.err;
  EXPECT_NE(slow.out.find("the likeliest cause"), std::string::npos) << slow.out;
  // On this machine half of the rate costs a third of the bandwidth, as slow host memory does elsewhere: the table
  // cannot distinguish the two, but half of the rate leaves next to nothing and is among the first.
  const json causes = json::parse(weft("check " + file + on + "--json -").out).at("causes");
  const auto half = std::ranges::find(causes, "half", [](const json& c) { return c.at("id").get<std::string>(); });
  ASSERT_LT(half - causes.begin(), 3);
  EXPECT_LT(half->at("left").get<double>(), 0.1);

  // No cause that is replayed makes everything 2000 times slower.
  write(nccl_table(model, 2000));
  const Answer strange = weft("check " + file + on);
  EXPECT_EQ(strange.code, 1);
  EXPECT_NE(strange.out.find("the model may be at fault"), std::string::npos) << strange.out;

  write("no table here\n");
  const Answer none = weft("check " + file + on);
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("no row of nccl-tests"), std::string::npos) << none.err;
  EXPECT_EQ(weft("check " + file).code, 2);

  // The machine is guessed from the devices, and one of another kind is refused.
  const std::string devices =
      "#  Rank  0 Group  0 Pid 4711 on  node1 device  0 [0x1b] NVIDIA H100 80GB HBM3\n"
      "#  Rank  1 Group  0 Pid 4712 on  node2 device  0 [0x1b] NVIDIA H100 80GB HBM3\n";
  write(devices + nccl_table({{"rows", {rows[1]}}}, 1));
  EXPECT_NE(weft("check " + file).out.find("on 2 ranks of dgx-h100:nodes=2,gpus=1 (guessed"), std::string::npos);
  EXPECT_NE(weft("check " + file + " --on dgx-a100").err.find("the table is of NVIDIA H100"), std::string::npos);
  std::filesystem::remove(file);
}

TEST(Command, ExplainsEveryCandidateWithAReason) {
  const Answer a = weft("explain all_reduce --bytes 1M --on dgx-h100 --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  int chosen = 0;
  const json report = json::parse(a.out);
  EXPECT_GE(report.at("candidates").size(), 8u);  // ring, tree and one_shot in three protocols; two_shot
  for (const json& c : report.at("candidates")) {
    chosen += c.at("chosen").get<bool>();
    EXPECT_FALSE(c.at("reason").get<std::string>().empty());
  }
  EXPECT_EQ(chosen, 1);
}

TEST(Explain, ExplainsARangeOfSizesByOneLineEach) {
  const std::string question = "explain all_reduce --on pcie-4x3090 --min 1K --max 1M --factor 32";
  const Answer table = weft(question);
  ASSERT_EQ(table.code, 0) << table.err;
  for (const char* size : {" 1024 ", " 32768 ", " 1048576 "})
    EXPECT_NE(table.out.find(size), std::string::npos) << size;
  const json report = json::parse(weft(question + " --json -").out);
  EXPECT_EQ(report.at("schema"), "weft.explain_sizes/1");
  ASSERT_EQ(report.at("sizes").size(), 3u);  // each is what the question about that size alone is answered with
  EXPECT_EQ(report.at("sizes")[2], json::parse(weft("explain all_reduce --on pcie-4x3090 --bytes 1M --json -").out));
}

TEST(Explain, SaysPointerOrGetAndWhereTheBreakEvenLies) {
  const json once = json::parse(weft("explain access --bytes 64M --on dgx-h100 --json -").out);
  EXPECT_EQ(once.at("choice"), "pointer");
  EXPECT_EQ(once.at("get_from_uses"), 2);
  const Answer thrice = weft("explain access --bytes 64M --reuse 3 --on dgx-h100");
  ASSERT_EQ(thrice.code, 0) << thrice.err;
  EXPECT_NE(thrice.out.find("\n* get "), std::string::npos) << thrice.out;
  EXPECT_NE(thrice.out.find("get wins from 2 uses on"), std::string::npos) << thrice.out;
}

TEST(Explain, ShowsWhatNcclWouldPickAndWhatThatCosts) {
  const json nccl = json::parse(weft("explain all_reduce --bytes 64M --on dgx-a100 --json -").out).at("nccl");
  EXPECT_EQ(nccl.at("algorithm"), "Ring");
  EXPECT_GE(nccl.at("slowdown").get<double>(), 1.0);
  EXPECT_GT(nccl.at("weft_predicted_us").get<double>(), 0);
  EXPECT_EQ(nccl.at("candidates").size(), 21u);  // seven algorithms, three protocols
  const json none = json::parse(weft("explain all_reduce --bytes 64M --on mi300x --json -").out).at("nccl");
  EXPECT_NE(none.at("unavailable").get<std::string>().find("NVIDIA"), std::string::npos);
}

TEST(Explain, WritesATuningTableWithoutGaps) {
  const Answer a = weft("explain all_reduce --on dgx-a100:nodes=2 --table - --max 16M");
  ASSERT_EQ(a.code, 0) << a.err;
  std::istringstream lines(a.out);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff");
  long long expected = 0;
  while (std::getline(lines, line)) {
    long long min = -1, max = -1;
    ASSERT_EQ(std::sscanf(line.c_str(), "allreduce,%lld,%lld,", &min, &max), 2) << line;
    EXPECT_EQ(min, expected);
    EXPECT_TRUE(line.ends_with(",2,16,-1,-1")) << line;
    expected = max + 1;
  }
  EXPECT_EQ(expected, (16 << 20) + 1);
}

}  // namespace
}  // namespace weft
