#include "apps/training/config/companions.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "apps/training/config/config.h"

namespace weft::training {
namespace {

// A folder of its own for a test's files.
class Companions : public testing::Test {
 protected:
  Companions() { std::filesystem::create_directories(folder_ + "/scripts"); }
  ~Companions() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  Config read(const std::string& name, const std::string& text) const {
    auto config = parse_config(folder_ + "/" + name, text);
    EXPECT_TRUE(config) << config.error().message;
    return config ? *config : Config{};
  }
  static bool says(const Config& c, std::string_view part) {
    return std::ranges::any_of(c.assumed, [&](const std::string& s) { return s.find(part) != std::string::npos; });
  }

  std::string folder_ = testing::TempDir() + "/weft_companions_test_" + std::to_string(getpid());
  const std::string script_ =
      "train.py --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 2 --max_length 4096\n";
};

TEST_F(Companions, AcceleratesFileIsReadAndItsOptionsCountMore) {
  write("fsdp.yaml",
        "distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config:\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n"
        "  fsdp_activation_checkpointing: true\n");
  const std::string launch = "accelerate launch --config_file fsdp.yaml --num_processes 8 ";
  const Config c = read("run.sh", launch + script_);
  EXPECT_EQ(c.numbers.at("zero"), 2);
  EXPECT_EQ(c.recompute, "full");
  EXPECT_EQ(c.precision, "bf16");
  EXPECT_FALSE(says(c, "DDP"));
  EXPECT_EQ(read("run.sh", launch + "--fsdp_sharding_strategy FULL_SHARD " + script_).numbers.at("zero"), 3);
  // Repositories start scripts of a folder below from their root.
  EXPECT_EQ(read("scripts/run.sh", launch + script_).numbers.at("zero"), 2);
  EXPECT_TRUE(says(read("run.sh", "accelerate launch --config_file=other.yaml " + script_),
                   "accelerate's file other.yaml is not here"));
}

TEST_F(Companions, AcceleratesOwnOptionsAreItsSharding) {
  const auto stage = [&](const std::string& options) {
    return read("run.sh", "accelerate launch " + options + " " + script_).numbers.at("zero");
  };
  EXPECT_EQ(stage("--use_fsdp"), 3);
  EXPECT_EQ(stage("--use_fsdp --fsdp_version 2 --fsdp_reshard_after_forward false"), 2);
  EXPECT_EQ(stage("--use_deepspeed"), 2);  // accelerate's default
  EXPECT_EQ(stage("--use_deepspeed --zero_stage 1"), 1);
  EXPECT_EQ(stage("--multi_gpu"), 0);
}

TEST_F(Companions, DeepSpeedsFileIsFoundFromYamlAndFromAccelerate) {
  write("configs/stage.json", "{\"zero_optimization\": {\"stage\": 1}, \"gradient_accumulation_steps\": \"auto\"}");
  write("acc.yaml", "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: configs/stage.json\n");
  const std::string yaml =
      "model_name_or_path: Qwen/Qwen2.5-7B\nfinetuning_type: full\ncutoff_len: 2048\n"
      "per_device_train_batch_size: 1\ngradient_accumulation_steps: 4\ndeepspeed: ";
  const Config factory = read("recipes/sft.yaml", yaml + "configs/stage.json\n");
  EXPECT_EQ(factory.numbers.at("zero"), 1);
  EXPECT_EQ(factory.accumulate, 4);
  EXPECT_EQ(read("run.sh", "accelerate launch --config_file acc.yaml " + script_).numbers.at("zero"), 1);
  const Config axolotl = read("a.yml",
                              "base_model: Qwen/Qwen2.5-7B\nmicro_batch_size: 1\nsequence_len: 2048\n"
                              "deepspeed: configs/stage.json\n");
  EXPECT_EQ(axolotl.numbers.at("zero"), 1);
  EXPECT_TRUE(says(read("b.yaml", yaml + "elsewhere/zero3.json\n"),
                   "ZeRO 3 after the name elsewhere/zero3.json, which is not here"));
}

TEST_F(Companions, ABrokenFileIsNamedWithItsPlace) {
  write("ds.json", "{\n  \"zero_optimization\": {\"stage\": 3},\n  \"bf16\": {\"enabled\" true}\n}\n");
  const auto d =
      parse_config(folder_ + "/run.sh", "torchrun " + script_.substr(0, script_.size() - 1) + " --deepspeed ds.json\n");
  ASSERT_FALSE(d);
  EXPECT_EQ(d.error().message.substr(0, 13), "ds.json:3:25:") << d.error().message;
}

TEST_F(Companions, AFileOfSettingsThatACommandNamesIsRead) {
  write("sft.yaml",
        "model_name_or_path: Qwen/Qwen2.5-7B\nfinetuning_type: full\ncutoff_len: 8192\n"
        "per_device_train_batch_size: 3\n");
  const Config c = read("go.sh", "#!/bin/bash\nllamafactory-cli train sft.yaml learning_rate=1e-5\n");
  EXPECT_EQ(c.format, "LLaMA-Factory");
  EXPECT_EQ(c.numbers.at("micro-batch"), 3);
  EXPECT_EQ(c.numbers.at("seq"), 8192);
}

TEST_F(Companions, TheTrainersFsdpConfigMayBeAFileOrStandInTheArgument) {
  write("conf/f.json", "{\"transformer_layer_cls_to_wrap\": [\"X\"], \"activation_checkpointing\": true}");
  const std::string head = "torchrun " + script_.substr(0, script_.size() - 1) + " --fsdp \"full_shard auto_wrap\" ";
  EXPECT_EQ(read("run.sh", head + "--fsdp_config conf/f.json\n").recompute, "full");
  EXPECT_EQ(read("run.sh", head + "--fsdp_config '{\"activation_checkpointing\": true}'\n").recompute, "full");
  EXPECT_TRUE(says(read("run.sh", head + "--fsdp_config gone.json\n"), "fsdp_config gone.json is not here"));
}

TEST(Strategies, HybridOnesShardWithinANode) {
  const auto read = [](const std::string& text) { return *parse_config("x.yaml", text); };
  const std::string head = "model_name_or_path: Qwen/Qwen2.5-7B\nper_device_train_batch_size: 1\nmax_length: 2048\n";
  for (const auto& [text, zero, hybrid] : {std::tuple{"fsdp: hybrid_shard auto_wrap\n", 3, true},
                                           {"fsdp: [hybrid_shard_zero2, auto_wrap]\n", 2, true},
                                           {"fsdp_config:\n  fsdp_sharding_strategy: 4\n", 3, true},
                                           {"fsdp_config:\n  sharding_strategy: _HYBRID_SHARD_ZERO2\n", 2, true},
                                           {"fsdp: shard_grad_op\n", 2, false},
                                           {"fsdp: full_shard\n", 3, false},
                                           {"fsdp_config:\n  fsdp_sharding_strategy: NO_SHARD\n", 0, false}}) {
    const Config c = read(head + text);
    EXPECT_EQ(c.numbers.at("zero"), zero) << text;
    EXPECT_EQ(c.shard_in_node, hybrid) << text;
  }
}

}  // namespace
}  // namespace weft::training
