#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"

// The command as a user meets it: grammar, JSON, exit codes, one clear line for bad input.
namespace weft {
namespace {

using nlohmann::json;

TEST(Rehearsal, TheMachineIsDescribedBeforeThereAreRecordings) {
  const Answer a = weft("rehearse --describe --on dgx-h100:nodes=2");  // what weftcomm rehearse asks first
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(json::parse(a.out).at("gpus"), 16);
}

TEST(Command, TheDocumentedAlgorithmsAreThoseOfTheRegistry) {
  std::ifstream file(WEFT_SOURCE "/docs/algorithms.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(page == weft("algorithms").out) << "stale: run `build/weft algorithms > docs/algorithms.md`";
}

TEST(Command, ReadsAMalformedFileAsBadInputWithItsLine) {
  const std::string file = testing::TempDir() + "/torn.xml";
  std::ofstream(file) << "<system version=\"1\">\n  <cpu numaid=\"0\">\n    <pci busid=\"0000:01:00.0\" class=\"0x0302";
  const Answer a = weft("bench all_reduce --on " + file);
  EXPECT_EQ(a.code, 2);
  EXPECT_NE(a.err.find("torn.xml:3"), std::string::npos) << a.err;
}

TEST(Command, TheDoctorSaysWhatTheNamedNicCostsATrainingStepAndADay) {
  const std::string file = testing::TempDir() + "/nic-" + std::to_string(getpid()) + ".log";
  std::ofstream(file)
      << "node1:4242:4301 [3] NCCL WARN NET/IB : mlx5_2:1 async fatal event: local catastrophic error\n";
  const std::string on = "doctor " + file + " --on dgx-h100:nodes=4 ";
  const Answer found = weft(on + "--workload llama3-8b:tp=4,global-batch=64,seq=4096 --price 2");
  EXPECT_EQ(found.code, 1);
  EXPECT_NE(found.out.find("a step of llama3-8b on dgx-h100:nodes=4"), std::string::npos) << found.out;
  EXPECT_NE(found.out.find("with nic:0/2=down"), std::string::npos) << found.out;
  EXPECT_NE(found.out.find("a day at 2 per GPU-hour"), std::string::npos) << found.out;
  const Answer wrong = weft(on + "--workload llama3-8b:tq=4");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("'tq' is none of"), std::string::npos) << wrong.err;
  EXPECT_EQ(weft("doctor " + file + " --workload llama3-8b").code, 2);  // on which machine?
}

TEST(Command, ATrainingRunsOwnFileIsReadAndOptionsCountMore) {
  const std::string file = testing::TempDir() + "/pretrain-" + std::to_string(getpid()) + ".sh";
  std::ofstream(file) << "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention "
                         "--num-query-groups 8 --ffn-hidden-size 14336 --swiglu --vocab-size 128256 --seq-length 4096\n"
                         "--untie-embeddings-and-output-weights --tensor-model-parallel-size 4 --global-batch-size 64 "
                         "--use-distributed-optimizer --bf16\n";
  const std::string own = weft("train --config " + file + " --on dgx-h100").out;
  const std::string typed = weft("train llama3-8b --on dgx-h100 --tp 4 --global-batch 64 --seq 4096").out;
  EXPECT_EQ(own.substr(own.find(" on 8 GPUs")), typed.substr(typed.find(" on 8 GPUs")));
  EXPECT_NE(weft("train --config " + file + " --on dgx-h100 --tp 2").out.find("plan: tp 2"), std::string::npos);
}

TEST(Command, CompletionScriptsOfOtherShellsAreSound) {
  for (const std::string shell : {"zsh", "fish"}) {
    const std::string file = testing::TempDir() + "/weft." + shell;
    ASSERT_EQ(weft("completion " + shell + " > " + file).code, 0);
    if (std::system((shell + " -c true 2>/dev/null").c_str()) != 0) continue;
    EXPECT_EQ(std::system((shell + " -n " + file).c_str()), 0) << shell;
  }
}

TEST(Bench, ASizeThatIsNoWholeNumberOfElementsIsSaid) {
  for (const std::string command : {"bench", "explain"}) {
    const auto odd = weft(command + " all_reduce --on dgx-h100 --bytes 5");
    EXPECT_EQ(odd.code, 0) << odd.err;
    EXPECT_NE(odd.err.find("--bytes 5: 4 B are moved"), std::string::npos) << command << ": " << odd.err;
    EXPECT_EQ(weft(command + " all_reduce --on dgx-h100 --bytes 4").err, "") << command;
  }
}

TEST(Bench, AnOperationAndARootAreForCollectivesThatHaveThem) {
  for (const std::string refused :
       {"broadcast --op max", "all_gather --op sum", "all_reduce --root 3", "barrier --root 0"}) {
    const auto done = weft("bench " + refused + " --on dgx-h100");
    EXPECT_EQ(done.code, 2) << refused;
    EXPECT_NE(done.err.find("has no meaning for"), std::string::npos) << refused << ": " << done.err;
  }
  EXPECT_EQ(weft("bench reduce --root 3 --op max --on dgx-h100 --bytes 1M").code, 0);
}

TEST(Train, ATimeBetweenFailuresOfManyMonthsIsSaidInDays) {
  const Answer a = weft(
      "train llama3-8b --on dgx-h100 --zero 3 --global-batch 16 --tokens 1T --failures 6.5 "
      "--checkpoint-time 30");
  EXPECT_NE(a.out.find("154 days"), std::string::npos) << a.out;  // 1000 days of 6.5 failures, one node
}

TEST(Train, AnOptionOfThePlanThatAnotherOneLeavesWithoutEffectIsRefusedWithBothNames) {
  const std::string step = "train llama3-8b --on dgx-h100 ";
  for (const auto& [options, without] : {std::pair<std::string, std::string>{"--schedule zb-1p", "--pp 1"},
                                         {"--cp-by ring", "--cp 1"},
                                         {"--dispatcher deepep", "--ep 1"},
                                         {"--zero 3 --bucket 100", "--zero 3"}}) {
    const auto done = weft(step + options);
    EXPECT_EQ(done.code, 2) << options << done.out;
    EXPECT_NE(done.err.find("has no effect with " + without), std::string::npos) << options << ": " << done.err;
  }
  const auto year = weft(step + "--zero 3 --software 2099");
  EXPECT_EQ(year.code, 2);
  EXPECT_NE(year.err.find("2026, the nearest year"), std::string::npos) << year.err;
}

TEST(Command, HasHelpWithExamplesForEveryCommand) {
  for (const char* command :
       {"bench", "explain", "verify", "topo", "catalog", "place", "run", "calibrate", "completion"}) {
    const Answer a = weft(std::string(command) + " --help");
    EXPECT_EQ(a.code, 0) << command;
    EXPECT_NE(a.out.find("Example"), std::string::npos) << command;
  }
}

TEST(Command, CompletesItsOwnWords) {
  if (std::system("bash -c true") != 0) GTEST_SKIP() << "no bash here";
  const std::string file = testing::TempDir() + "/weft.bash";
  ASSERT_EQ(weft("completion > " + file).code, 0);
  const std::string script =
      ". " + file + "; COMP_WORDS=(weft be); COMP_CWORD=1; _weft; [ \"${COMPREPLY[0]}\" = bench ]";
  EXPECT_EQ(std::system(("bash -c '" + script + "'").c_str()), 0);
  // An option behind a command, a command of a command, the value of an option.
  for (const auto& [given, completed] : {std::pair{"train --recomp", "--recompute"},
                                         {"bench --dty", "--dtype"},
                                         {"kv rep", "replay"},
                                         {"serve m --engine sg", "sglang"}}) {
    const std::string one = fmt::format(
        ". {}; COMP_WORDS=(weft {}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _weft; "
        "[ \"${{COMPREPLY[0]}}\" = {} ]",
        file, given, completed);
    EXPECT_EQ(std::system(("bash -c '" + one + "'").c_str()), 0) << given;
  }
}

}  // namespace
}  // namespace weft
