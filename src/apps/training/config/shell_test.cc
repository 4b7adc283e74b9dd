#include "apps/training/config/shell.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "apps/training/config/config.h"

namespace weft::training {
namespace {

using Words = std::vector<std::string>;

ShellRun run(std::string_view text) {
  return run_shell(text, [](const std::string&) { return std::nullopt; });
}

TEST(Shell, AHereDocumentIsReadIntoAVariable) {
  const ShellRun read = run(
      "TP=4\nread -r -d '' ARGS <<EOF\n  --tp $TP\n  --name \"it's\"\nEOF\nread -r FIRST <<'END'\n$TP\nsecond\nEND\n"
      "train $ARGS\n");
  EXPECT_EQ(read.variables.at("ARGS"), Words{"  --tp 4\n  --name \"it's\""});
  EXPECT_EQ(read.variables.at("FIRST"), Words{"$TP"});  // a quoted end: nothing is expanded; one line without -d
  EXPECT_EQ(read.commands.back(), (Words{"train", "--tp", "4", "--name", "\"it's\""}));
}

TEST(Shell, AnApostropheInDoubleQuotesIsNoQuote) {
  const ShellRun read =
      run("echo \"Let's start\"\nTP=2\nALL=(--save \"Bob's run\" --tp $TP)\n"
          "train \"a'b\" \"${ALL[@]}\" --pp \"$(cat <<< \"it's\")\" --note 'say \"no\"'\n");
  EXPECT_EQ(read.variables.at("TP"), Words{"2"});
  const Words& last = read.commands.back();
  ASSERT_GE(last.size(), 6U);
  EXPECT_EQ(Words(last.begin(), last.begin() + 6), (Words{"train", "a'b", "--save", "Bob's run", "--tp", "2"}));
  EXPECT_EQ(last.back(), "say \"no\"");
}

TEST(Shell, AnArraysElementIsTakenByItsNumber) {
  const ShellRun read = run("TP=(1 2 4)\nI=1\ntrain ${TP[1]} ${TP[I + 1]} \"${TP[-1]}\" x${TP[7]} ${PLAIN[2]}\n");
  EXPECT_EQ(read.commands.back(), (Words{"train", "2", "4", "4", "x", "${PLAIN[2]}"}));
}

TEST(Shell, ArithmeticHasTheOperatorsOfBash) {
  const ShellRun read =
      run("N=3\nA=$((1 << N | 1))\nB=$((2 ** 3 ** 2 % 100))\nC=$(( N > 2 && N != 4 ? 0x10 : 1 / 0 ))\n"
          "D=$(( N += 2, N * -(2 - 4) ))\n((E = N++ + ++N))\nlet 'F = ~0 & 7' G=F-1\nH=$((((1 + 2)) * (3)))\n"
          "I=$((2#101 + 010))\nJ=$((missing + 1))\n");
  for (const auto& [name, value] : {std::pair{"A", "9"},
                                    {"B", "12"},
                                    {"C", "16"},
                                    {"D", "10"},
                                    {"E", "12"},
                                    {"N", "7"},
                                    {"F", "7"},
                                    {"G", "6"},
                                    {"H", "9"},
                                    {"I", "13"},
                                    {"J", "$((missing + 1))"}})
    EXPECT_EQ(read.variables.at(name), Words{value}) << name;
}

TEST(Shell, ValuesAreCutReplacedAndCountedByTheirOperators) {
  const ShellRun read =
      run("P=/data/qwen/Qwen2.5-7B.bf16.bin\nL=(aa bb cc dd)\nU=$UNSET\n"
          "echo ${P##*/} ${P%/*} ${P%%.*} ${P#/*/} ${P/Qwen/Llama} ${P//[0-9]/N} ${P/#\\/data/x} ${P: -3} ${P:1:4}\n"
          "echo ${#P} ${#L[@]} ${L[@]:1:2} ${L[-1]^^} ${L[@]/#/--} ${U##*/} ${P@Q}\nNAME=P\necho ${!NAME:0:5}\n");
  EXPECT_EQ(read.commands[0], (Words{"echo", "Qwen2.5-7B.bf16.bin", "/data/qwen", "/data/qwen/Qwen2",
                                     "qwen/Qwen2.5-7B.bf16.bin", "/data/qwen/Llama2.5-7B.bf16.bin",
                                     "/data/qwen/QwenN.N-NB.bfNN.bin", "x/qwen/Qwen2.5-7B.bf16.bin", "bin", "data"}));
  EXPECT_EQ(read.commands[1],
            (Words{"echo", "30", "4", "bb", "cc", "DD", "aa", "bb", "cc", "dd", "${U##*/}", "${P@Q}"}));
  EXPECT_EQ(read.commands[2], (Words{"echo", "/data"}));
  EXPECT_EQ(read.left.at("${P@Q}"), 5);  // not understood: its line is kept
}

TEST(Shell, AssociativeArraysHaveTheirValuesByKeys) {
  const ShellRun read =
      run("declare -A TP=([7b]=1 [\"70b\"]=8)\nlocal -A PP\nPP[70b]=4\nSIZE=70b\n"
          "echo ${TP[$SIZE]} ${PP[70b]} ${#TP[@]} ${!TP[@]} ${TP[13b]:-2}\nX[2]=c\necho ${#X[@]} ${X[2]}\n");
  EXPECT_EQ(read.commands[0], (Words{"echo", "8", "4", "2", "70b", "7b", "2"}));
  EXPECT_EQ(read.commands[1], (Words{"echo", "3", "c"}));
}

TEST(Shell, AScriptsOwnOptionsAreReadByItsLoops) {
  const auto none = [](const std::string&) { return std::nullopt; };
  const char* const getopts =
      "TP=1; PP=1\nwhile getopts \":t:p:v\" opt; do\n  case $opt in\n    t) TP=$OPTARG ;;\n    p) PP=$OPTARG ;;\n"
      "    v) V=1 ;;\n  esac\ndone\nshift $((OPTIND - 1))\nNAME=$1\n";
  const ShellRun given = run_shell(getopts, none, {"-vt", "4", "-p8", "llama"});
  EXPECT_EQ(given.variables.at("TP"), Words{"4"});
  EXPECT_EQ(given.variables.at("PP"), Words{"8"});
  EXPECT_EQ(given.variables.at("V"), Words{"1"});
  EXPECT_EQ(given.variables.at("NAME"), Words{"llama"});
  EXPECT_EQ(run_shell(getopts, none, {}).variables.at("TP"), Words{"1"});
  const char* const shifted =
      "while [[ $# -gt 0 ]]; do\n  case \"$1\" in\n    --tp) TP=\"$2\"; shift 2 ;;\n    --fp8) FP8=1; shift ;;\n"
      "    *) break ;;\n  esac\ndone\n";
  const ShellRun loop = run_shell(shifted, none, {"--fp8", "--tp", "2", "rest"});
  EXPECT_EQ(loop.variables.at("TP"), Words{"2"});
  EXPECT_EQ(loop.variables.at("FP8"), Words{"1"});
  EXPECT_FALSE(run_shell(shifted, none, {}).variables.contains("TP"));
}

TEST(Shell, WhatACommandPrintsStaysWholeWhereItIsNotKnown) {
  const ShellRun read =
      run("M=$(cat \"/models/my model.txt\" | head -1)\nN=$(expr 4 \\* 2)\nK=$(echo \"$N / 2\" | bc)\n"
          "ARGS=\"--model $M --layers $N\"\ntrain $ARGS --heads $K `hostname -i`:1\n");
  EXPECT_EQ(read.commands.back(), (Words{"train", "--model", "$(cat \"/models/my model.txt\" | head -1)", "--layers",
                                         "8", "--heads", "4", "`hostname -i`:1"}));
}

TEST(Shell, WhatIsNotKnownIsNamedWithItsLine) {
  const auto c = parse_config("t.sh",
                              "#!/bin/bash\nTP=${SIZES@Q}\nfor B in 4 8; do\ntorchrun t.py --num-layers 4 "
                              "--hidden-size 64 --num-attention-heads 4 --vocab-size 100 --micro-batch-size $B "
                              "--tensor-model-parallel-size $TP --seq-length $(cut -f 2 len.txt)\ndone\n");
  ASSERT_TRUE(c) << c.error().message;
  const std::vector<std::string> expected = {
      "line 3: B=4, the first of the loop's 2",
      "line 2: tensor_model_parallel_size: ${SIZES@Q} is known to the running script only",
      "line 4: seq_length: $(cut -f 2 len.txt) is known to the running script only"};
  for (const std::string& note : expected) EXPECT_NE(std::ranges::find(c->assumed, note), c->assumed.end()) << note;
}

TEST(Shell, TheOutputOfCatIsItsDocument) {
  const ShellRun read = run("N=2\nALL=$(cat <<-STOP\n\t--layers $((N * 8))\n\tSTOP\n)\nrun $ALL\n");
  EXPECT_EQ(read.commands.back(), (Words{"run", "--layers", "16"}));
}

TEST(Shell, AFileThatAScriptWritesIsKept) {
  const ShellRun read =
      run("F=ds.json\ncat <<EOT > $F\n{\"train_batch_size\": $B}\nEOT\ncat > plain.txt <<X\none\nX\n");
  EXPECT_EQ(read.files.at("ds.json"), "{\"train_batch_size\": $B}\n");
  EXPECT_EQ(read.files.at("plain.txt"), "one\n");
}

TEST(Shell, DeepSpeedsFileWrittenByTheScriptIsTheRunsStage) {
  const auto c =
      parse_config("t.sh",
                   "#!/bin/bash\ncfg=/tmp/ds.json\ncat <<EOT > $cfg\n{\"zero_optimization\": {\"stage\": 2},\n"
                   " \"train_micro_batch_size_per_gpu\": 3}\nEOT\n"
                   "deepspeed t.py --model_name_or_path Qwen/Qwen2.5-7B --deepspeed $cfg\n");
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->numbers.at("zero"), 2);
  EXPECT_EQ(c->numbers.at("micro-batch"), 3);
}

TEST(Shell, AFileBesideTheScriptIsFoundWhereACommandNamesItsFolder) {
  const std::string folder = testing::TempDir() + "/weft_shell_test";
  std::filesystem::create_directories(folder + "/models");
  std::ofstream(folder + "/models/small.sh") << "MODEL=(--num-layers 2 --hidden-size 64 --num-attention-heads 4\n"
                                                "  --vocab-size 100)\n";
  const auto c = parse_config(folder + "/run.sh",
                              "DIR=\"$(cd -- \"$(dirname -- \"${BASH_SOURCE[0]}\")\" &>/dev/null && pwd)\"\n"
                              "source \"${DIR}/models/small.sh\"\ntorchrun t.py ${MODEL[@]} --micro-batch-size 1\n");
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(c) << c.error().message;
  ASSERT_TRUE(c->model);
  EXPECT_EQ(c->model->layers, 2);
}

}  // namespace
}  // namespace weft::training
