#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"

// `weft serve` and `weft fit` as a user meets them: the answer, JSON, exit codes, one clear line for bad input.
namespace weft {
namespace {

using nlohmann::json;

const std::string kPages = std::string(WEFT_SOURCE) + "/tests/pages/";

TEST(Serve, OnePointSaysWhatUsersSeeAndItsPartsSum) {
  const Answer a = weft("serve llama-3.1-70b --on hgx-h200 --tp 4 --precision fp8 --concurrency 16 --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  const json report = json::parse(a.out);
  EXPECT_EQ(report["schema"], "weft.serve/1");
  const json& row = report["rows"][0];
  EXPECT_EQ(row["gpus"], 4);
  double parts = 0, step = 0;
  for (const auto& [name, ms] : row["ttft_parts_ms"].items()) parts += ms.get<double>();
  for (const auto& [name, ms] : row["step_parts_ms"].items()) step += ms.get<double>();
  EXPECT_NEAR(parts, row["ttft_ms"]["mean"], 1e-6 * parts);
  EXPECT_NEAR(step, row["step_ms"], 0.02 * step);
  EXPECT_LE(row["ttft_ms"]["median"], row["ttft_ms"]["p99"]);
  EXPECT_GT(row["memory_bytes"]["keys and values"], 0);
}

TEST(Serve, BadInputIsOneLineThatNamesItAndStatusTwo) {
  const std::string model = "serve llama-3.1-70b --on hgx-h200 --precision fp8 ";
  for (const auto& [arguments, said] :
       {std::pair<std::string, const char*>{"serve gpt-17 --on hgx-h200 --concurrency 1",
                                            "model gpt-17: neither a config.json nor one of"},
        {model + "--tp 3 --concurrency 1", "--tp 3: does not divide the 64 heads"},
        {model + "--tp 16 --concurrency 1", "16 GPUs, the machine has 8"},
        {model + "", "one of --concurrency, --rate and --trace"},
        {model + "--concurrency 1 --rate 2", "one of --concurrency, --rate and --trace"},
        {model + "--rate -2", "--rate -2"},
        {model + "--concurrency 1 --price -1", "--price -1"},
        {model + "--concurrency 1 --engine tgi", "--engine tgi: there are vllm, sglang, trtllm"},
        {model + "--concurrency 1 --ep 2", "has no experts"},
        {model + "--concurrency 1 --kv-dtype int8", "--kv-dtype int8: there are bf16 and fp8"},
        {model + "--concurrency 1 --spread 2", "--spread 2"},
        {model + "--concurrency 1 --prefill 2:xp=1", "'xp=1' is none of tp="},
        {model + "--concurrency 1 --decode-engines 2", "needs --prefill"},
        {model + "--concurrency 1 --tpot 5", "goals of --best"},
        {model + "--best --concurrency 4", "--best looks for the load itself"},
        {model + "--best --percentile 75", "--percentile 75: 50, 90 or 99"},
        {model + "--trace /nowhere.csv", "/nowhere.csv"},
        {"serve llama-3.1-70b --on dgx-h100 --precision bf16 --concurrency 1", "does not fit on H100-SXM5"},
        {"serve --compare /nowhere.csv", "/nowhere.csv"},
        {"fit llama-3.1-8b voodoo2", "GPU 'voodoo2': there are h100"},
        {"fit llama-3.1-8b h100 --gpus 0", "--gpus 0"}}) {
    const Answer a = weft(arguments);
    EXPECT_EQ(a.code, 2) << arguments << a.out << a.err;
    EXPECT_NE(a.err.find(said), std::string::npos) << arguments << "\n" << a.err;
    EXPECT_EQ(std::count(a.err.begin(), a.err.end(), '\n'), 1) << a.err;
  }
}

TEST(Serve, AnEmptyTraceAndALineWithoutTokensAreNamed) {
  const std::string file = testing::TempDir() + "/trace-" + std::to_string(getpid()) + ".csv";
  std::ofstream(file) << "arrival_s,input_tokens,output_tokens\n";
  EXPECT_NE(weft("serve llama-3.1-8b --on dgx-h100 --trace " + file).err.find("an empty trace"), std::string::npos);
  std::ofstream(file) << "arrival_s,input_tokens,output_tokens\n0,10,5\n1,,5\n";
  const Answer a = weft("serve llama-3.1-8b --on dgx-h100 --trace " + file);
  EXPECT_EQ(a.code, 2);
  EXPECT_NE(a.err.find(file + ":3: "), std::string::npos) << a.err;
  std::filesystem::remove(file);
  EXPECT_EQ(weft("serve llama-3.1-8b --on dgx-h100 --trace " + kPages + "arrivals.csv").code, 0);
}

TEST(Serve, ARateAboveCapacityIsABadAnswerWithTheStableRate) {
  const Answer a = weft("serve llama-3.1-8b --on dgx-h100 --rate 500");
  EXPECT_EQ(a.code, 1) << a.err;
  EXPECT_NE(a.out.find("Unstable: the queue grows"), std::string::npos) << a.out;
}

TEST(Serve, BestHoldsTheGoalAndGivesEveryLoserAReason) {
  const Answer a = weft(
      "serve llama-3.1-70b --on hgx-h200 --precision fp8 --best --tpot 15 --max-concurrency 32 --price 2 --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  const json report = json::parse(a.out);
  const json& rows = report["rows"];
  ASSERT_GE(rows.size(), 3U);
  EXPECT_EQ(rows[0]["reason"], "");
  EXPECT_LE(rows[0]["tpot_ms"]["median"], 15);
  EXPECT_GT(rows[0]["money_per_million_tokens"], 0);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    EXPECT_NE(rows[i]["reason"], "") << rows[i];
    if (rows[i]["fits"]) EXPECT_LE(rows[i]["output_tokens_per_s_per_gpu"], rows[0]["output_tokens_per_s_per_gpu"]);
  }
  const json& frontier = report["frontier"];
  for (std::size_t i = 1; i < frontier.size(); ++i) {
    EXPECT_GT(frontier[i]["output_tokens_per_s_per_user"], frontier[i - 1]["output_tokens_per_s_per_user"]);
    EXPECT_LT(frontier[i]["output_tokens_per_s_per_gpu"], frontier[i - 1]["output_tokens_per_s_per_gpu"]);
  }
  EXPECT_EQ(weft("serve llama-3.1-70b --on hgx-h200 --precision fp8 --best --tpot 0.1 --max-concurrency 2").code, 1);
}

TEST(Serve, CompareAnswersEveryRowItCanAndABadOneEndsNothing) {
  const std::string rows = testing::TempDir() + "/rows-" + std::to_string(getpid()) + ".csv", out = rows + ".out";
  std::ifstream in(kPages + "rows.csv");
  const std::string good(std::istreambuf_iterator<char>(in), {});
  std::ofstream(rows) << good << "bad,4\n";
  const Answer a = weft("serve --compare " + rows + " --out " + out);
  ASSERT_EQ(a.code, 0) << a.err;
  EXPECT_NE(a.out.find("1 not answered: 2 cells, but 36 columns"), std::string::npos) << a.out;
  std::ifstream predicted(out);
  std::string line;
  std::getline(predicted, line);
  EXPECT_EQ(line.rfind("id,ttft_ms,tpot_ms,reason", 0), 0U) << line;
  std::size_t answered = 0;
  while (std::getline(predicted, line)) answered += line.find(",,") == line.find(',') ? 0 : 1;
  EXPECT_EQ(answered, 8U);
  std::filesystem::remove(rows);
  std::filesystem::remove(out);
}

TEST(Fit, WhatFitsAndWhatWouldMakeItFit) {
  const Answer fits = weft("fit llama-3.1-8b h100"), too_large = weft("fit llama-3.1-70b h100 --precision bf16");
  EXPECT_EQ(fits.code, 0) << fits.err;
  EXPECT_NE(fits.out.find("fits on H100-SXM5"), std::string::npos) << fits.out;
  EXPECT_EQ(too_large.code, 1);
  EXPECT_NE(too_large.out.find("it fits with tp 2"), std::string::npos) << too_large.out;
  const json report = json::parse(weft("fit deepseek-r1 b200 --gpus 8 --precision fp4 --json -").out);
  EXPECT_EQ(report["schema"], "weft.fit/1");
  EXPECT_TRUE(report["fits"]);
  EXPECT_GT(report["requests_at_once"], 1);
  // The interval is the measured error of the accuracy page, not a number of the command's own.
  const json accuracy = json::parse(std::ifstream(std::string(WEFT_SOURCE) + "/data/serving/accuracy.json"));
  EXPECT_EQ(report["interval"], accuracy["tpot_error_at_90"]);
}

TEST(Serve, HybridsAndCompressedCachesOfTheCatalogueAreServed) {
  for (const char* model : {"nemotron-3-nano-30b-a3b", "qwen3-next-80b-a3b", "jamba-v0.1", "deepseek-v4-flash"}) {
    const Answer a = weft(std::string("serve ") + model + " --on hgx-h200 --tp 8 --concurrency 8 --json -");
    ASSERT_EQ(a.code, 0) << model << a.err;
    const json report = json::parse(a.out);
    EXPECT_EQ(report["model"], model);
    EXPECT_GT(report["rows"][0]["tpot_ms"]["mean"], 0.5) << model;
  }
}

}  // namespace
}  // namespace weft
