// Commands of the documents answer as these say, and a near miss of an option is answered by what it may mean.
#include <nlohmann/json.hpp>

#include "command.h"

namespace weft {
namespace {

using nlohmann::json;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(FirstAnswers, ABrokenMachineHasNoMeasurementOfAWholeOneInItsRow) {
  const std::string broken = "bench all_reduce --on dgx-h100 --bytes 16M --fault nvswitch:0=down";
  const Answer a = weft(broken);
  ASSERT_EQ(a.code, 0) << a.err;
  EXPECT_FALSE(has(a.out, "measured (us)")) << a.out;
  EXPECT_TRUE(has(a.out, "(measured: ")) << "beside the time without faults: " << a.out;
  EXPECT_TRUE(has(a.out, "no published table is of a machine with such faults")) << a.out;
  const json row = json::parse(weft(broken + " --json -").out).at("rows").at(0);
  EXPECT_EQ(row.at("measured"), "not measured");
  EXPECT_LT(row.at("healthy_measured").at("low_us"), row.at("healthy_us"));
}

// 1 MiB on 32 H100: weft's choice is faster than any published row.
TEST(FirstAnswers, ATimeOutsideWhatWasMeasuredIsSaidToBe) {
  const std::string small = "--on dgx-h100:nodes=4,net=ib-ndr --bytes 1M";
  const Answer bench = weft("bench all_reduce " + small), explain = weft("explain all_reduce " + small);
  ASSERT_TRUE(has(bench.out, "lie outside")) << bench.out;
  EXPECT_TRUE(has(explain.out, "lies outside")) << explain.out;
  const Answer broken = weft("bench all_reduce " + small + " --fault nic:1/3=down");
  EXPECT_TRUE(has(broken.out, "without faults and loads the times of 1 of 1 row lie outside")) << broken.out;
}

TEST(FirstAnswers, ExplainTakesFaultsAsBenchDoes) {
  const std::string asked = "explain all_reduce --bytes 64M --on dgx-h100:nodes=2";
  const json whole = json::parse(weft(asked + " --json -").out);
  const Answer text = weft(asked + " --fault nic:0/3=down");
  const json broken = json::parse(weft(asked + " --fault nic:0/3=down --json -").out);
  EXPECT_GT(broken.at("simulated").at("time_us"), whole.at("simulated").at("time_us"));
  EXPECT_EQ(broken.at("faults"), json::array({"nic:0/3=down"}));
  EXPECT_EQ(broken.at("simulated").at("measured"), "not measured");
  EXPECT_TRUE(has(text.out, "# fault nic:0/3=down\n")) << text.out;
  EXPECT_EQ(weft("explain all_reduce --bytes 1K --fault nic:0=down").code, 2) << "of a machine that is modelled";
  EXPECT_EQ(weft(asked + " --fault nic:0/9=down").code, 2);
}

TEST(FirstAnswers, ANearMissOfAMachinesOptionsSaysWhatIsMeant) {
  const auto said = [](const std::string& on) { return weft("topo --on " + on).err; };
  EXPECT_TRUE(has(said("dgx-h100:nodes=2,net=infiniband"), "did you mean ib-"))
      << said("dgx-h100:nodes=2,net=infiniband");
  EXPECT_TRUE(has(said("dgx-h100:nodes=2,net=ethernet"), "did you mean eth-"));
  EXPECT_TRUE(has(said("dgx-h100:nodse=2"), "did you mean node")) << said("dgx-h100:nodse=2");
  EXPECT_TRUE(has(said("dgx-h100:nodes=2,wires=fattree"), "did you mean fat-tree?"));
  EXPECT_TRUE(has(said("dgx-h100:slices=2"), "mig")) << "every option is listed";
}

TEST(FirstAnswers, AWordWithoutItsOptionAndAMissingOneAreNamed) {
  EXPECT_TRUE(has(weft("explain all_reduce 1M --on dgx-h100").err, "where a size is --bytes SIZE"));
  EXPECT_TRUE(has(weft("topo dgx-h100").err, "where a machine is --on MACHINE"));
  EXPECT_TRUE(has(weft("explain --on dgx-h100").err, "explain needs 'collective' (weft explain --help)"));
  EXPECT_TRUE(has(weft("trace").err, "trace needs 'files' (weft trace --help)"));
}

TEST(FirstAnswers, OneIsNotSeveral) {
  EXPECT_TRUE(has(weft("verify all_reduce --algo ring --ranks 1").out, "on 1 rank: 1 step, 0 messages"));
  EXPECT_TRUE(has(weft("kv size llama3-8b").out, "1 token takes"));
}

TEST(FirstAnswers, KindsOfFaultsAreThoseOfTheMachine) {
  const auto said = [](const std::string& fault) { return weft("bench barrier --on dgx-h100 --fault " + fault).err; };
  EXPECT_TRUE(has(said("nvswich:0=down"), "did you mean nvswitch?")) << said("nvswich:0=down");
  EXPECT_TRUE(has(said("nvswitch=down"), "did you mean nvswitch:0?")) << said("nvswitch=down");
  EXPECT_TRUE(has(said("nvswitch:7=down"), "weft topo --links names the devices")) << said("nvswitch:7=down");
  EXPECT_TRUE(has(weft("topo --on dgx-h100 --links").out, "nvswitch0"));
}

TEST(FirstAnswers, TheCatalogueHasEveryNameOfAMachineAndTheUnitOfItsMemory) {
  const Answer a = weft("catalog dgx-h200");
  EXPECT_TRUE(has(a.out, "hgx-h200")) << a.out;
  EXPECT_TRUE(has(a.out, "also called h200, h200-sxm, dgx-h200")) << a.out;
  EXPECT_TRUE(has(weft("catalog H100").out, "memory 80 GiB"));
}

TEST(FirstAnswers, APlanThatFitsTightlyIsSaidTo) {
  const Answer a = weft("train llama3-8b --on dgx-a100 --best");
  ASSERT_EQ(a.code, 0) << a.err;
  EXPECT_TRUE(has(a.out, "GiB (fits tightly).\n")) << a.out.substr(0, 300);
  EXPECT_TRUE(has(a.out, "of them tightly")) << a.out.substr(0, 500);
}

TEST(FirstAnswers, WhatASecondChoiceWithALowerEstimateLostByIsSaid) {
  const Answer a = weft("explain all_reduce --min 32K --max 32K --on dgx-h100");
  const std::size_t at = a.out.find(", -");
  if (at == std::string::npos) GTEST_SKIP() << "the least estimate is chosen here: " << a.out;
  EXPECT_TRUE(has(a.out.substr(at), "simulated")) << a.out;
}

TEST(FirstAnswers, TheFirstLineOfAStepSaysOfWhatItsSharesAre) {
  const Answer a = weft("train llama3-8b --on dgx-h100 --zero 3");
  EXPECT_TRUE(has(a.out, "% of the step, the largest part of the rest is ")) << a.out;
  EXPECT_TRUE(has(a.out, "% of the step).")) << a.out;
}

}  // namespace
}  // namespace weft
