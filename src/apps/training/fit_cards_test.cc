#include "apps/training/fit_cards.h"

#include <gtest/gtest.h>

#include "apps/training/step.h"

namespace weft::training {
namespace {

constexpr const char* kColumns =
    "model,layers,hidden,heads,ffn,vocab,seq,gbs,mbs,gpus,gpu,precision,tp,pp,software,step_s\n";

// Steps of a model on GPUs whose GEMMs and attention reach other shares than those that are shipped.
std::string steps_with(double gemm, double attention, std::initializer_list<std::string> lines) {
  std::string csv = kColumns;
  StepMachines machines;
  for (const std::string& line : lines) {
    const auto own = own_steps("t.csv", kColumns + line + ",1\n", machines);
    EXPECT_TRUE(own) << own.error().message;
    auto card = load_card(own->front().card, own->front().plan.precision);
    EXPECT_TRUE(card);
    card->gemm = gemm, card->attention_forward *= attention, card->attention_backward *= attention;
    const auto step = simulate_step(own->front().model, own->front().plan, *card, *own->front().traffic);
    EXPECT_TRUE(step);
    csv += fmt::format("{},{}\n", line, step->seconds);
  }
  return csv;
}

const std::initializer_list<std::string> kFour = {"m,24,2048,16,8192,51200,2048,512,4,8,H100,bf16,1,1,2025",
                                                  "m,24,2048,16,8192,51200,8192,128,1,8,H100,bf16,1,1,2025",
                                                  "m,24,4096,32,16384,51200,2048,256,2,16,H100,bf16,2,1,2025",
                                                  "m,24,4096,32,16384,51200,16384,32,1,16,H100,bf16,2,1,2025"};

TEST(FitCards, FindsTheSharesThatTheStepsWereMadeWith) {
  StepMachines machines;
  const auto own = own_steps("t.csv", steps_with(0.55, 0.7, kFour), machines);
  ASSERT_TRUE(own) << own.error().message;
  ASSERT_EQ(own->size(), 4u);
  const auto fits = fit_cards(*own);
  ASSERT_TRUE(fits) << fits.error().message;
  ASSERT_EQ(fits->size(), 1u);
  const auto shipped = load_card("H100-SXM5", "bf16");
  EXPECT_NEAR(fits->front().gemm, 0.55, 0.01);
  EXPECT_NEAR(fits->front().forward, 0.7 * shipped->attention_forward, 0.02);
  EXPECT_LT(fits->front().after, 0.005);
  EXPECT_GT(fits->front().before, 0.1);
  EXPECT_FALSE(fits->front().at_bound);
}

TEST(FitCards, WhatIsWrittenIsReadAndSaysWhereItIsFrom) {
  StepMachines machines;
  const auto own = own_steps("t.csv", steps_with(0.5, 1, {*kFour.begin()}), machines);
  ASSERT_TRUE(own);
  const auto fits = fit_cards(*own);
  ASSERT_TRUE(fits);
  const OwnCards cards{"mine.json", to_cards(*fits, "t.csv", "2026-11-25").dump()};
  ASSERT_TRUE(check_cards(cards));
  const auto card = load_card("H100-SXM5", "bf16", cards), shipped = load_card("H100-SXM5", "bf16");
  ASSERT_TRUE(card);
  EXPECT_NEAR(card->gemm, 0.5, 0.01);
  EXPECT_DOUBLE_EQ(card->attention_forward, shipped->attention_forward);  // one step does not determine it
  EXPECT_EQ(card->fitted, "fitted by weft calibrate --train to 1 step of t.csv, software of 2025");
  const auto other = load_card("A100-SXM4-80GB", "bf16", cards),
             other_shipped = load_card("A100-SXM4-80GB", "bf16");  // another chip
  ASSERT_TRUE(other && other_shipped);
  EXPECT_EQ(other->gemm, other_shipped->gemm);
  EXPECT_EQ(load_card("H100-SXM5", "fp8", cards)->gemm, load_card("H100-SXM5", "fp8")->gemm);  // not fitted
}

TEST(FitCards, AFileThatIsNoneOrHasAShareAboveOneIsRefusedWithItsName) {
  const auto message = [](const char* text) {
    const auto status = check_cards({"mine.json", text});
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(message("{}"), "mine.json: no weft.cards/1 with sources and cards; weft calibrate --train writes one");
  EXPECT_EQ(
      message(
          R"({"schema": "weft.cards/1", "sources": {"f": {}}, "cards": [{"chip": "90", "gemm": {"bf16": 55, "source": "f"}}]})"),
      "mine.json: chip 90: gemm bf16 55 is no share above 0 and up to 1");
  EXPECT_EQ(
      message(
          R"({"schema": "weft.cards/1", "sources": {}, "cards": [{"chip": "90", "gemm": {"bf16": 0.5, "source": "f"}}]})"),
      "mine.json: chip 90: gemm has no source");
}

std::string log_of(int iterations, const char* more = "") {
  std::string log = "------------------------ arguments ------------------------\n";
  for (const auto& [name, value] : {std::pair{"num_layers", "24"},
                                    {"hidden_size", "2048"},
                                    {"num_attention_heads", "16"},
                                    {"ffn_hidden_size", "8192"},
                                    {"padded_vocab_size", "51200"},
                                    {"vocab_size", "51200"},
                                    {"seq_length", "2048"},
                                    {"micro_batch_size", "4"},
                                    {"global_batch_size", "512"},
                                    {"tensor_model_parallel_size", "1"},
                                    {"pipeline_model_parallel_size", "1"},
                                    {"world_size", "8"},
                                    {"bf16", "True"},
                                    {"use_distributed_optimizer", "True"},
                                    {"fp8", "None"}})
    log += fmt::format("  {} {} {}\n", name, std::string(40, '.'), value);
  log += more;
  for (int i = 1; i <= iterations; ++i)
    log += fmt::format(
        " iteration {:8}/ 500000 | consumed samples: {} | elapsed time per iteration (ms): {} | throughput per GPU "
        "(TFLOP/s/GPU): 400.0 |\n",
        i, 512 * i, i <= 10 ? 9000 : 1000 + i % 3);
  return log;
}

TEST(FitCards, ALogOfMegatronIsAStepWithItsPlanAndTheMedianAfterTenIterations) {
  StepMachines machines;
  ASSERT_TRUE(is_training_log(log_of(1)));
  const auto step = step_of_log("run.log", log_of(50), "H100", machines);
  ASSERT_TRUE(step) << step.error().message;
  EXPECT_NEAR(step->measured, 1.001, 1e-9);
  EXPECT_EQ(step->model.hidden, 2048);
  EXPECT_EQ(step->plan.dp, 8);
  EXPECT_EQ(step->plan.global_batch, 512);
  EXPECT_EQ(step->plan.micro_batch, 4);
  const auto few = step_of_log("run.log", log_of(12), "H100", machines);
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().message,
            "run.log: 12 iterations have a time, at least 13 are needed: the first 10 do not count");
  const std::string bare = log_of(50).substr(log_of(0).size());
  const auto none = step_of_log("run.log", bare, "H100", machines);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("run.log: the log lacks the arguments"), std::string::npos);
  const auto card = step_of_log("run.log", log_of(50), "TPU", machines);
  ASSERT_FALSE(card);
  EXPECT_NE(card.error().message.find("run.log: GPU 'TPU'"), std::string::npos) << card.error().message;
}

TEST(FitCards, SwappedColumnsAndPlansThatDoNotDivideAreNamedWithTheirLine) {
  StepMachines machines;
  const auto swapped =
      own_steps("t.csv", std::string(kColumns) + "m,2048,24,16,96,51200,2048,512,4,8,H100,bf16,1,1,2025,3\n", machines);
  ASSERT_FALSE(swapped);
  EXPECT_NE(swapped.error().message.find("t.csv:2: layers 2048 are more than hidden; are columns swapped?"),
            std::string::npos)
      << swapped.error().message;
  const auto odd = own_steps(
      "t.csv", std::string(kColumns) + "m,24,2048,16,8192,51200,2048,511,4,8,H100,bf16,1,1,2025,3\n", machines);
  ASSERT_FALSE(odd);
  EXPECT_TRUE(odd.error().message.starts_with("t.csv:2: --global-batch 511")) << odd.error().message;
}

}  // namespace
}  // namespace weft::training
