#include "workload/training/config.h"

#include <gtest/gtest.h>

namespace weft::training {
namespace {

TEST(Config, MegatronsArgumentsWithVariablesOfTheirScript) {
  const auto c = parse_config("run.sh", R"(#!/bin/bash
TP=8
export PP=4
ARGS=(
    --num-layers 80 --hidden-size 8192   # a remark
    --num-attention-heads 64 --group-query-attention --num-query-groups 8 \
    --ffn-hidden-size 28672 --swiglu --untie-embeddings-and-output-weights
    --vocab-size 128256 --seq-length 8192 --micro-batch-size 1 --global-batch-size 512
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP}
    --num-layers-per-virtual-pipeline-stage 5 --sequence-parallel --use-distributed-optimizer
    --recompute-activations --bf16 --mtp-num-layers 1
))");
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->format, "Megatron-LM arguments");
  const Model published = *load_model("llama3-70b");
  ASSERT_TRUE(c->model);
  EXPECT_EQ(c->model->parameters(), published.parameters());
  EXPECT_EQ(c->numbers.at("tp"), 8);
  EXPECT_EQ(c->numbers.at("pp"), 4);
  EXPECT_EQ(c->numbers.at("vp"), 4);  // 80 layers on 4 stages, 5 in a chunk
  EXPECT_EQ(c->numbers.at("zero"), 1);
  EXPECT_EQ(c->numbers.at("seq"), 8192);
  EXPECT_EQ(c->recompute, "selective");
  EXPECT_EQ(c->precision, "bf16");
  EXPECT_EQ(c->not_modelled, std::vector<std::string>{"mtp_num_layers"});
}

TEST(Config, NemosYamlCountsVirtualStages) {
  const auto c = parse_config("gpt.yaml",
                              "trainer:\n  precision: bf16\nmodel:\n  micro_batch_size: 2\n  global_batch_size: 256\n"
                              "  tensor_model_parallel_size: 4 # within a node\n  pipeline_model_parallel_size: 2\n"
                              "  virtual_pipeline_model_parallel_size: 3\n  encoder_seq_length: 4096\n"
                              "  num_layers: null\n");
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->format, "NeMo");
  EXPECT_FALSE(c->model);
  EXPECT_EQ(c->numbers.at("vp"), 3);
  EXPECT_EQ(c->numbers.at("micro-batch"), 2);
  EXPECT_EQ(c->numbers.at("seq"), 4096);
}

TEST(Config, AnActivationIsGatedIfItsNameSaysSo) {
  const auto parameters = [](const char* activation) {
    const auto c = parse_config("m.yaml", std::string("micro_batch_size: 1\nnum_layers: 2\nhidden_size: 64\n"
                                                      "num_attention_heads: 4\nffn_hidden_size: 256\nvocab_size: 100\n"
                                                      "activation: ") +
                                              activation + "\n");
    EXPECT_TRUE(c && c->model) << activation;
    return c && c->model ? c->model->parameters() : 0;
  };
  EXPECT_EQ(parameters("swiglu"), parameters("fast-swiglu"));
  EXPECT_EQ(parameters("swiglu") - parameters("gelu"), 2 * 64 * 256);  // a third matrix in each of two layers
}

TEST(Config, TorchtitansTomlNamesItsModelAndShards) {
  const auto c = parse_config("llama3_8b.toml",
                              "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 2\n"
                              "seq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = -1\n"
                              "tensor_parallel_degree = 2\n[activation_checkpoint]\nmode = \"selective\"\n");
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->model_name, "llama3-8b");
  EXPECT_EQ(c->numbers.at("zero"), 3);
  EXPECT_EQ(c->numbers.at("tp"), 2);
  EXPECT_EQ(c->recompute, "selective");
  EXPECT_EQ(c->numbers.at("eager"), 1);
  EXPECT_EQ(
      parse_config("compiled.toml", "[compile]\nenable = true\n[training]\nseq_len = 8192\n")->numbers.at("eager"), 0);
}

TEST(Config, DeepspeedsJsonIsAPlanWithoutAModel) {
  const auto c = parse_config("ds.json", R"({"train_batch_size": 512, "train_micro_batch_size_per_gpu": "auto",
    "bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}})");
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->format, "DeepSpeed");
  EXPECT_FALSE(c->model);
  EXPECT_EQ(c->numbers.at("zero"), 3);
  EXPECT_EQ(c->numbers.at("global-batch"), 512);
  EXPECT_FALSE(c->numbers.contains("micro-batch"));
  EXPECT_EQ(c->not_modelled, std::vector<std::string>{"zero_optimization.offload_param.device"});
}

TEST(Config, WhatCannotBeUnderstoodIsNamedWithItsFile) {
  const auto message = [](std::string_view text) {
    const auto c = parse_config("x", text);
    return c ? std::string() : c.error().message;
  };
  EXPECT_EQ(message("hello"), "x: neither arguments of Megatron-LM nor a file of NeMo, torchtitan or DeepSpeed");
  EXPECT_EQ(message("{}"), "x: JSON without train_batch_size or zero_optimization is no file of DeepSpeed");
  EXPECT_EQ(message("--tensor-model-parallel-size four"), "x: tensor_model_parallel_size: four is no count");
  EXPECT_EQ(message("--num-layers 4 --hidden-size 64 --num-attention-heads 4"), "x: key vocab_size is missing");
  EXPECT_EQ(message("--num-layers 10 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
                    "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2"),
            "x: num_layers_per_virtual_pipeline_stage: 2 layers on 4 stages do not divide 10 layers");
}

}  // namespace
}  // namespace weft::training
