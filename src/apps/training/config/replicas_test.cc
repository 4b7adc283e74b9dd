#include "apps/training/config/replicas.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace weft::training {
namespace {

Config read(std::string_view file, std::string_view text) {
  auto config = parse_config(file, text);
  EXPECT_TRUE(config) << config.error().message;
  return config ? *config : Config{};
}
bool names(const std::vector<std::string>& list, std::string_view part) {
  return std::ranges::any_of(list, [&](const std::string& one) { return one.find(part) != std::string::npos; });
}

// The Trainer without a file of DeepSpeed, FSDP or accelerate runs DDP: every rank holds the optimizer's state.
TEST(Replicas, ATrainerThatNamesNoShardingIsDdpAndSaysSo) {
  const Config plain =
      read("sft.yaml", "model_name_or_path: Qwen/Qwen2.5-3B\nper_device_train_batch_size: 2\nmax_length: 4096\n");
  EXPECT_EQ(plain.numbers.at("zero"), 0);
  EXPECT_TRUE(names(plain.assumed, "DDP"));
  const Config sharded = read("sft.yaml",
                              "model_name_or_path: Qwen/Qwen2.5-3B\nper_device_train_batch_size: 2\n"
                              "deepspeed: configs/zero_2_offload.json\n");
  EXPECT_EQ(sharded.numbers.at("zero"), 2);
  EXPECT_FALSE(names(sharded.assumed, "DDP"));
}

// Two copies of state that four ranks each share (HSDP), by the words of open-instruct, accelerate and axolotl.
TEST(Replicas, DegreesOfHybridShardingAreReadUnderAllTheirNames) {
  const Config arguments = read("dpo.sh",
                                "#!/bin/bash\ntorchrun t.py --model_name_or_path allenai/OLMo-2-1124-7B "
                                "--per_device_train_batch_size 1 --max_seq_length 4096 --tensor_parallel_degree 2 "
                                "--fsdp_shard_degree 4 --fsdp_num_replicas 2\n");
  const Config accelerate = read("hsdp.yaml",
                                 "distributed_type: FSDP\nnum_processes: 16\nparallelism_config:\n"
                                 "  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 4\n"
                                 "  parallelism_config_tp_size: 2\n");
  for (const Config& c : {arguments, accelerate}) {
    EXPECT_EQ(c.numbers.at("zero"), 3) << c.format;
    EXPECT_EQ(c.numbers.at("shard"), 4) << c.format;
    EXPECT_EQ(c.numbers.at("tp"), 2) << c.format;
  }
  const Config axolotl = read("a.yaml",
                              "base_model: Qwen/Qwen3-8B\nmicro_batch_size: 1\nsequence_len: 2048\ndp_shard_size: 8\n"
                              "context_parallel_size: 2\n");
  EXPECT_EQ(axolotl.numbers.at("zero"), 3);
  EXPECT_FALSE(axolotl.numbers.contains("shard"));  // one copy: all replicas share it
}

TEST(Replicas, MegatronFsdpsStrategiesAreZerosStages) {
  const std::string base =
      "pretrain --num-layers 4 --hidden-size 256 --num-attention-heads 4 --vocab-size 1000 --seq-length 512 "
      "--micro-batch-size 1 ";
  const auto stage = [&](const std::string& more) {
    return read("m.sh", "#!/bin/bash\n" + base + more + "\n").numbers.at("zero");
  };
  EXPECT_EQ(stage(""), 0);
  EXPECT_EQ(stage("--use-distributed-optimizer"), 1);
  EXPECT_EQ(stage("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads"), 2);
  EXPECT_EQ(stage("--use-distributed-optimizer --use-megatron-fsdp --data-parallel-sharding-strategy "
                  "optim_grads_params"),
            3);
  EXPECT_EQ(stage("--use-distributed-optimizer --data-parallel-sharding-strategy optim_grads_params"), 1);
}

TEST(Replicas, OptimizersAndDispatchersThatAreModelledAreNotLeftOut) {
  const std::string base =
      "model_name_or_path: Qwen/Qwen3-30B-A3B\nfinetuning_type: full\nper_device_train_batch_size: 1\ncutoff_len: "
      "512\n";
  EXPECT_FALSE(names(read("l.yaml", base + "optim: adamw_torch_fused\n").not_modelled, "optim"));
  EXPECT_TRUE(names(read("l.yaml", base + "optim: paged_adamw_8bit\n").not_modelled, "optim"));
  const Config muon = read("l.yaml", base + "use_muon: true\n");
  EXPECT_EQ(muon.optimizer, "muon");
  const Config flex = read("l.yaml", base + "moe_token_dispatcher_type: flex\nmoe_flex_dispatcher_backend: hybridep\n");
  EXPECT_EQ(flex.dispatcher, "hybridep");
  EXPECT_EQ(read("l.yaml", base + "moe_token_dispatcher_type: alltoall\n").dispatcher, "");
  for (const Config& c : {muon, flex}) EXPECT_FALSE(names(c.not_modelled, "dispatcher")) << c.not_modelled.size();
}

}  // namespace
}  // namespace weft::training
