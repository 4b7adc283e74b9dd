#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "command.h"

// What the command makes of words that its users type otherwise than it would: help, version, misspelt names, spellings
// of NCCL and torch.
namespace weft {
namespace {

TEST(Usage, WithoutWordsAndByHelpTheCommandsAreListed) {
  const Answer plain = weft("");
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_NE(plain.out.find("Subcommands:"), std::string::npos);
  EXPECT_NE(plain.out.find("Begin with:"), std::string::npos);
  EXPECT_EQ(weft("help").out, plain.out);
  EXPECT_EQ(weft("--help").out, plain.out);
  EXPECT_EQ(weft("help bench").out, weft("bench --help").out);
}

TEST(Usage, TheVersionHasTheSpellingsThatUsersTry) {
  const Answer version = weft("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out.find("weft "), 0U);
  EXPECT_EQ(weft("version").out, version.out);
  EXPECT_EQ(weft("-V").out, version.out);
}

TEST(Usage, EveryMisspeltWordIsAnsweredByWhatItMayMean) {
  for (const auto& [arguments, said] :
       {std::pair{"bnech all_reduce", "did you mean bench?"},
        {"bench all_reduce --rnaks 4", "bench has no option --rnaks; did you mean --ranks?"},
        {"bench all_reduce --on dgx-h10", "did you mean dgx-h100"},
        {"bench all_redcue --on dgx-h100", "did you mean all_reduce?"},
        {"bench all_reduce --on dgx-h100 --algo rnig", "did you mean ring?"},
        {"bench all_reduce --on dgx-h100 --fault nci:3=down", "did you mean nic"},
        {"bench all_reduce --on dgx-h100 --fault nic:33=down", "did you mean nic3"},
        {"--verson", "weft has no option --verson; did you mean --version?"},
        {"bench all_reduce --on dgx-h100x", "did you mean dgx-h100"},
        {"bench all_reduce --on dgx-h100:nodes=2,net=ib-nrd", "did you mean ib-ndr"},
        {"bench all_reduce --on dgx-h100 --dtype bfloat61", "did you mean bfloat16"},
        {"bench all_reduce --on dgx-h100 --op smu", "did you mean sum"},
        {"bench all_reduce --on dgx-h100 --bytes", "--bytes needs a value: SIZE"},
        {"bench all_reduce --on dgx-h100 --channels many", "--channels 'many' is not a number"},
        {"train llama3-8b --on dgx-h100 --tokens lots",
         "--tokens: 'lots' is no number of tokens like 300B, 15T or 15e12"},
        {"train llama3-8b --on dgx-h100 --glboal-batch 64", "did you mean --global-batch?"}}) {
    const Answer a = weft(arguments);
    EXPECT_EQ(a.code, 2) << arguments;
    EXPECT_NE(a.err.find(said), std::string::npos) << arguments << ": " << a.err;
    EXPECT_EQ(a.err.find('\n'), a.err.size() - 1) << a.err;
  }
}

TEST(Usage, OptionsOfOtherToolsAreAnsweredByWeftsOwn) {
  for (const auto& [arguments, said] :
       {std::pair{"bench all_reduce -b 8 -e 128M", "did you mean --min?"},
        {"bench all_reduce --size 1M", "did you mean --bytes?"},
        {"bench all_reduce --nodes 2", "did you mean --on MACHINE:nodes=N?"},
        {"train llama3-8b --on dgx-h100 --tensor-model-parallel-size 2", "did you mean --tp?"},
        {"serve llama-3.1-8b --on dgx-h100 --request-rate 2", "did you mean --rate?"}})
    EXPECT_NE(weft(arguments).err.find(said), std::string::npos) << arguments << ": " << weft(arguments).err;
}

TEST(Usage, TypesAndOperationsHaveTheSpellingsOfTorchAndNccl) {
  const std::string rest = " --on pcie-4x3090 --bytes 1M";
  const std::string half = weft("bench all_reduce --dtype bfloat16 --op avg" + rest).out;
  EXPECT_EQ(weft("bench all_reduce_perf --dtype torch.bfloat16 --op ReduceOp.AVG" + rest).out, half);
  EXPECT_EQ(weft("bench AllReduce --dtype BF16 --op mean" + rest).out, half);
}

TEST(Usage, TokensOfARunAreDecimalAsPapersWriteThem) {
  const std::string question = "train llama3-8b --on dgx-h100 --zero 3 --price 2 --json - --tokens ";
  const Answer plain = weft(question + "1e12");
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(weft(question + "1T").out, plain.out);
  EXPECT_EQ(weft(question + "1000B").out, plain.out);
}

TEST(Usage, TheCatalogueListsTheModelsThatErrorsSpeakOf) {
  EXPECT_NE(weft("catalog llama").out.find("llama3-8b"), std::string::npos);
  EXPECT_EQ(weft("catalog models").out.find("dgx-h100"), std::string::npos);
}

TEST(Usage, AnArgumentTooManyIsNamedAndSoIsTheCommand) {
  const Answer a = weft("bench all_reduce dgx-h100 twice");
  EXPECT_EQ(a.code, 2);
  EXPECT_NE(
      a.err.find("bench: 'dgx-h100' is one argument too many, where a machine is --on MACHINE (weft bench --help)"),
      std::string::npos)
      << a.err;
}

TEST(Usage, CollectivesHaveTheNamesOfNcclMpiAndTorch) {
  const std::string rest = " --on dgx-h100 --bytes 1M --json -";
  const Answer own = weft("bench all_gather" + rest);
  ASSERT_EQ(own.code, 0) << own.err;
  const auto collective = [](const Answer& a) { return a.out.substr(a.out.find("\"collective\""), 30); };
  for (const char* name :
       {"AllGather", "ALL_GATHER", "ncclAllGather", "MPI_Allgather", "all-gather", "all_gather_into_tensor"})
    EXPECT_EQ(collective(weft(std::string("bench ") + name + rest)), collective(own)) << name;
}

TEST(Usage, OneSizeIsAskedForByBytesInBenchAsElsewhere) {
  const Answer one = weft("bench all_reduce --on dgx-h100 --bytes 1M");
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, weft("bench all_reduce --on dgx-h100 --min 1M --max 1M").out);
  const Answer both = weft("bench all_reduce --on dgx-h100 --bytes 1M --max 4M");
  EXPECT_EQ(both.code, 2);
  EXPECT_NE(both.err.find("--bytes 1M is one size"), std::string::npos) << both.err;
}

TEST(Usage, HelpStaysWithinTheColumnsThatThereAre) {
  for (const char* command : {"", "bench", "train", "explain", "explore", "serve", "run"}) {
    std::istringstream lines(weft(std::string(command) + " --help", "COLUMNS=72").out);
    for (std::string line; std::getline(lines, line);) {
      // A word that is longer than a line is not cut.
      const std::size_t first = line.find_first_not_of(' ');
      if (first == std::string::npos || line.find(' ', first) == std::string::npos) continue;
      std::size_t columns = 0;
      for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
      EXPECT_LE(columns, 72U) << command << ": " << line;
    }
  }
}

TEST(Usage, OptionsOfBenchAndTrainStandByTopicWithTheKindOfTheirValue) {
  const std::string bench = weft("bench --help").out, train = weft("train --help").out;
  for (const char* heading :
       {"What is timed:", "On another machine, simulated:", "What else happens there:", "Output:"})
    EXPECT_NE(bench.find(heading), std::string::npos) << heading;
  for (const char* heading : {"The plan:", "The batch:", "The whole run:"})
    EXPECT_NE(train.find(heading), std::string::npos) << heading;
  EXPECT_NE(bench.find("--on MACHINE"), std::string::npos);
  EXPECT_NE(bench.find("--bytes SIZE"), std::string::npos);
  EXPECT_NE(bench.find("--json FILE"), std::string::npos);
}

TEST(Usage, EveryPercentageNamesWhatItIsOf) {
  const Answer a = weft("explain all_reduce --bytes 64M --on dgx-h100");
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_NE(a.out.find("the least possible time, 149 us (GPU port 450 GB/s), is 58 % of that"), std::string::npos)
      << a.out;
  EXPECT_NE(a.out.find("which counts the sums that switches make"), std::string::npos) << a.out;
}

TEST(Usage, CompletionsKnowMachinesModelsAndCollectives) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = weft(std::string("completion ") + shell).out;
    for (const char* word : {"dgx-h100", "llama3-8b", "all_reduce", "two_shot"})
      EXPECT_NE(script.find(word), std::string::npos) << shell << ": " << word;
  }
}

}  // namespace
}  // namespace weft
