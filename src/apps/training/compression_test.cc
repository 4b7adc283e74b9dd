#include <gtest/gtest.h>

#include "apps/training/answer.h"
#include "apps/training/best.h"
#include "apps/training/files.h"
#include "apps/training/test_inputs.h"

// Gradients that are compressed on their way.
namespace weft::training {
namespace {

Answer answer_to(const std::string& words, const std::string& on) {
  auto parsed = parse_words(words);
  EXPECT_TRUE(parsed);
  parsed->on = on;
  const auto view = machine(on);
  auto found = answer(model(parsed->model), *view, *parsed);
  EXPECT_TRUE(found) << (found ? "" : found.error().message);
  return *found;
}

// PowerSGD's own trade: over a slow network it gains, over NVLink its encoding costs more than it saves.
TEST(Compression, GainsWhereTheNetworkIsSlowAndPaysForItsEncoding) {
  const std::string plan = "llama3-8b:zero=0,micro-batch=1,global-batch=32,seq=2048";
  const auto seconds = [&](const std::string& with, const std::string& on) {
    return answer_to(plan + with, on).step.seconds;
  };
  const std::string slow = "dgx-h100:nodes=4,net=eth-100";
  EXPECT_LT(seconds(",compress=powersgd:4", slow), 0.7 * seconds("", slow));
  EXPECT_LT(seconds(",compress=fp16", slow), 0.8 * seconds("", slow));
  EXPECT_EQ(seconds(",compress=bf16", slow), seconds(",compress=fp16", slow));
  EXPECT_LT(seconds(",compress=fp8", slow), 0.85 * seconds(",compress=bf16", slow));
  const std::string fast = "llama3-8b:zero=0,micro-batch=4,global-batch=32,seq=8192";
  const Step plain = answer_to(fast, "dgx-h100").step,
             small = answer_to(fast + ",compress=powersgd:4", "dgx-h100").step;
  EXPECT_GT(small.seconds, plain.seconds);
  EXPECT_LT(small.data_total, 0.2 * plain.data_total);
}

TEST(Compression, SendsFactorsOrTheLargestValues) {
  const Model m = model("llama3-8b");
  Plan plan{.dp = 8, .zero = 0, .global_batch = 8, .seq = 2048};
  const Card on = card("H100-SXM5");
  constexpr double kBytes = 25 << 20;
  plan.compression = {Compression::Kind::kTopK, 0.01};
  const Encoded top = encoded(kBytes, 8, m, plan, on);
  EXPECT_EQ(top.collective, Collective::kAllGather);
  EXPECT_NEAR(top.bytes, 0.01 * kBytes / 4 * 8 * 8, 1);  // value and index, of eight ranks
  plan.compression = {Compression::Kind::kPowerSgd, 4};
  const Encoded power = encoded(kBytes, 8, m, plan, on);
  EXPECT_EQ(power.collectives, 2);
  // 4 (4096 + n) of 4096 n values: 0.2 % for square matrices, less for the MLP's.
  EXPECT_GT(2 * power.bytes / kBytes, 0.001);
  EXPECT_LT(2 * power.bytes / kBytes, 0.003);
  EXPECT_GT(power.seconds, 9 * kBytes / on.bandwidth);  // nine passes over the gradients
}

// Error feedback: what is not sent stays with the gradients, as large as they are.
TEST(Compression, WhatIsNotSentYetTakesMemory) {
  const Model m = model("llama3-8b");
  Plan plan{.dp = 8, .zero = 0, .global_batch = 8, .seq = 2048};
  const Card on = card("H100-SXM5");
  const double plain = memory_of_stage(m, plan, on, 0).gradients;
  for (const auto kind : {Compression::Kind::kHalf, Compression::Kind::kBf16, Compression::Kind::kFp8}) {
    plan.compression = {kind, 0};
    EXPECT_EQ(memory_of_stage(m, plan, on, 0).gradients, plain);
  }
  for (const auto kind : {Compression::Kind::kTopK, Compression::Kind::kPowerSgd}) {
    plan.compression = {kind, 1};
    EXPECT_NEAR(memory_of_stage(m, plan, on, 0).gradients, 2 * plain, 1);
  }
}

TEST(Compression, WordsThatCannotBeAreRefused) {
  for (const char* text : {"powersgd", "powersgd:0", "powersgd:2.5", "topk:1", "topk:0%", "topk:101%", "zip"})
    EXPECT_FALSE(parse_compression(text)) << text;
  for (const char* text : {"none", "fp16", "bf16", "fp8", "powersgd:4", "topk:1%", "topk:0.1%"})
    EXPECT_EQ(name(parse_compression(text).value()), text);
  Plan plan{.dp = 8, .zero = 1, .global_batch = 8, .seq = 2048, .compression = {Compression::Kind::kPowerSgd, 4}};
  EXPECT_EQ(check_plan(model("llama3-8b"), plan).error().message,
            "--compress powersgd:4 needs --zero 0: DDP's hooks compress gradients that every replica keeps");
}

}  // namespace
}  // namespace weft::training
