#include <gtest/gtest.h>

#include <cctype>
#include <sstream>
#include <string>
#include <vector>

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
        {"serve llama-3.1-8b --on dgx-h100 --concurrency 1e9", "'1e9' is not a whole number in digits: 1000000000"},
        {"train llama3-8b --on dgx-h100 --tokens lots",
         "--tokens: 'lots' is no number of tokens like 300B, 15T or 15e12"},
        {"train llama3-8b --on dgx-h100 --glboal-batch 64", "did you mean --global-batch?"}}) {
    const Answer a = weft(arguments);
    EXPECT_EQ(a.code, 2) << arguments;
    EXPECT_NE(a.err.find(said), std::string::npos) << arguments << ": " << a.err;
    EXPECT_EQ(a.err.find('\n'), a.err.size() - 1) << a.err;
  }
}

// Values that are no word of an option are answered by the option's name.
TEST(Usage, AnUnknownValueNamesItsOption) {
  for (const auto& [arguments, said] :
       {std::pair{"bench all_reduce --on dgx-h10:nodes=2",
                  "--on dgx-h10:nodes=2: unknown machine 'dgx-h10'; did you mean"},
        {"topo --on dgx-b30", "--on dgx-b30: unknown machine 'dgx-b30'; did you mean"},
        {"train llama3-8b --on gdx-h100", "--on gdx-h100: unknown machine 'gdx-h100'; did you mean dgx-h100"},
        {"place --on dgx-h101", "--on dgx-h101: "},
        {"bench all_reduce --on dgx-h100 --algo ring,rnig", "--algo ring,rnig: "},
        {"explain all_reduce --on dgx-h100 --proto LL182",
         "--proto LL182: unknown protocol 'LL182'; did you mean LL128"},
        {"bench all_reduce --on dgx-h100 --dtype flaot", "--dtype flaot: unknown type 'flaot'; did you mean float"},
        {"bench all_reduce --on dgx-h100 --op prdo", "--op prdo: unknown operation 'prdo'; did you mean prod"},
        {"bench all_reduce --on dgx-h100 --tuner ncll", "--tuner ncll: unknown tuner 'ncll'; did you mean nccl"},
        {"bench all_reduce --on dgx-h100 --level pakcet",
         "--level pakcet: unknown level 'pakcet'; did you mean packet"},
        {"replay nosuch.trace", "nosuch.trace: no such file"}}) {
    const Answer a = weft(arguments);
    EXPECT_EQ(a.code, 2) << arguments;
    EXPECT_EQ(a.err.rfind(std::string("weft: ") + said, 0), 0U) << arguments << ": " << a.err;
  }
}

// Of every option of every command that takes a number, by the commands' own help.
TEST(Usage, NumbersThatMeanNothingAreRefusedByEveryOption) {
  std::vector<std::string> commands;
  std::istringstream all(weft("--help", "COLUMNS=400").out);
  for (std::string line; std::getline(all, line);)
    if (line.starts_with("  ") && line.size() > 3 && std::islower(line[2]) != 0 && !line.starts_with("  weft"))
      commands.push_back(line.substr(2, line.find(' ', 2) - 2));
  ASSERT_GT(commands.size(), 20U);
  commands.insert(commands.end(), {"kv size", "kv fetch"});
  int options = 0;
  for (const std::string& command : commands) {
    std::istringstream help(weft(command + " --help", "COLUMNS=400").out);
    for (std::string line; std::getline(help, line);) {
      std::istringstream words(line);
      std::string names, type;
      words >> names;
      const std::size_t dashes = names.rfind("--");
      if (!names.starts_with('-') || dashes == std::string::npos) continue;
      words >> type;
      if (!type.starts_with("INT") && !type.starts_with("UINT") && !type.starts_with("FLOAT")) continue;
      ++options;
      std::string name = names.substr(names.find("--"));
      name = name.substr(0, name.find_first_of(",:"));
      for (const char* value : {"nan", "inf", "-inf", "-9e99", "1e400", "-7"}) {
        const Answer a = weft(command + " " + name + "=" + value);
        EXPECT_EQ(a.code, 2) << command << ' ' << name << ' ' << value;
        EXPECT_NE(a.err.find(name), std::string::npos) << command << ' ' << name << ' ' << value << ": " << a.err;
      }
    }
  }
  EXPECT_GT(options, 80);
}

TEST(Usage, ARangeIsNamedWithItsOption) {
  for (const auto& [arguments, said] :
       {std::pair{"train llama3-8b --on dgx-h100 --seq 0", "--seq 0 is outside 1 … 1099511627776"},
        {"train llama3-8b --on dgx-h100 --zero 4", "--zero 4 is outside 0 … 3"},
        {"train llama3-8b --on dgx-h100 --tokens -1", "--tokens -1 is outside 1 … "},
        {"train llama3-8b --on dgx-h100 --tokens 1T --price nan", "--price nan is outside 0 … "},
        {"serve llama3-8b --on dgx-h100 --concurrency 1 --accept 1.5", "--accept 1.5 is outside 0 … 1"},
        {"place --on dgx-h100:nodes=8 --nodes -3", "--nodes -3 is outside 1 … "},
        {"place --on dgx-h100:nodes=8 --nodes 2 --bytes 0", "--bytes 0: at least 1 B"},
        {"explain all_reduce --on dgx-h100 --bytes 0", "--bytes 0: at least 1 B"},
        {"bench all_reduce --on dgx-h100 --channels 1.5", "--channels"}}) {
    const Answer a = weft(arguments);
    EXPECT_EQ(a.code, 2) << arguments;
    EXPECT_NE(a.err.find(said), std::string::npos) << arguments << ": " << a.err;
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
