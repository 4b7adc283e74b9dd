#include "apps/training/config/shell.h"

#include <gtest/gtest.h>

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
