#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
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
        {model + "--tp 16 --concurrency 1", "16 GPUs (tp 16), the machine has 8"},
        {model + "", "one of --concurrency, --rate and --trace"},
        {model + "--concurrency 1 --rate 2", "takes only one of --concurrency, --rate and --trace"},
        {model + "--concurrency 0", "--concurrency 0: 1 to 1000000"},
        {model + "--rate 0", "--rate 0: above 0"},
        {model + "--concurrency 1 --requests 0", "--requests 0: 1 to"},
        {model + "--concurrency 1 --isl 1000000000", "--isl 1000000000: 1 to 100000000 tokens"},
        {model + "--concurrency 1 --isl 8Q", "'8Q' is no number of tokens"},
        {model + "--concurrency 1 --isl 425000", "the context of llama-3.1-70b has 131072"},
        {model + "--concurrency 1 --percentile 90", "--percentile is for --best"},
        {model + "--concurrency 1 --top 3", "--top is for --best"},
        {model + "--concurrency 1 --trace-rate 3", "--trace-rate is for --trace"},
        {model + "--trace x.csv --isl 8", "--isl has no effect with --trace"},
        {"serve --compare x.csv --tp 4", "--tp has no effect with --compare"},
        {"serve deepseek-r1 --on hgx-b200 --engine sglang --tp 8 --dp-attention 8 --ep 8 --concurrency 8",
         "needs 64 GPUs (tp 8, dp-attention 8, ep 8: tp x dp-attention of them), the machine has 8"},
        {"serve llama-3.1-8b --on tpu-v4 --engine trtllm --concurrency 1", "--engine trtllm does not run on TPUv4"},
        {"fit gpt2 h100 --context 8192", "--context 8192: the context of gpt2 has 1024 tokens"},
        {"fit llama-3.1-8b h100 --gpus 3", "--gpus 3: llama-3.1-8b can be cut over 1, 2, 4"},
        {model + "--rate -2", "--rate -2"},
        {model + "--concurrency 1 --price -1", "--price -1"},
        {model + "--concurrency 1 --engine tgi", "--engine tgi: there are vllm, sglang, trtllm"},
        {model + "--concurrency 1 --ep 2", "has no experts"},
        {model + "--concurrency 1 --kv-dtype int8", "--kv-dtype int8: there are bf16 and fp8"},
        {model + "--concurrency 1 --spread 2", "--spread 2"},
        {model + "--concurrency 1 --prefill 2:xp=1", "'xp=1' is none of tp="},
        {model + "--concurrency 1 --decode-engines 2", "needs --prefill"},
        {model + "--concurrency 1 --tpot -5", "--tpot -5 is outside 0 … "},
        {model + "--concurrency 1 --max-num-seqs 0", "--max-num-seqs 0: from 1"},
        {model + "--concurrency 1 --max-num-batched-tokens -4", "--max-num-batched-tokens -4 is outside 0 … "},
        {model + "--concurrency 1 --gpu-memory-utilization 1.2", "--gpu-memory-utilization 1.2: a share"},
        {model + "--concurrency 1 --urgent 2", "--urgent 2 is outside 0 … 1"},
        {model + "--best --urgent 0.1", "--urgent has no effect with --best"},
        {model + "--best --prefill 2:tp=1", "--best finds the number of engines"},
        {model + "--best --concurrency 4", "--best looks for the load itself"},
        {model + "--best --percentile 75", "--percentile 75: 50, 90 or 99"},
        {model + "--trace /nowhere.csv", "/nowhere.csv"},
        {"serve llama-3.1-70b --on dgx-h100 --precision bf16 --concurrency 1", "does not fit on H100-SXM5"},
        {"serve --compare /nowhere.csv", "/nowhere.csv"},
        {"fit llama-3.1-8b voodoo2", "GPU 'voodoo2': there are h100"},
        {"fit llama-3.1-8b h100 --gpus 0", "--gpus 0"},
        {"fit llama-3.1-8b h100 --gpus 12 --train", "--gpus 12: 8 are in a node"},
        {"fit llama-3.1-8b h100 --train --engine vllm", "--engine: is for serving"},
        {"fit llama-3.1-8b h100 --lora 8", "--lora: goes with --train"},
        {"fit llama-3.1-8b a100 --train --precision fp8", "--precision fp8: A100-SXM4-40GB"}}) {
    const Answer a = weft(arguments);
    EXPECT_EQ(a.code, 2) << arguments << a.out << a.err;
    EXPECT_NE(a.err.find(said), std::string::npos) << arguments << "\n" << a.err;
    EXPECT_EQ(std::count(a.err.begin(), a.err.end(), '\n'), 1) << a.err;
  }
}

TEST(Serve, AnEmptyTraceAndALineWithoutTokensAreNamed) {
  const std::string file = testing::TempDir() + "/trace-" + std::to_string(getpid()) + ".csv";
  std::ofstream(file) << "arrival_s,input_tokens,output_tokens\n";
  EXPECT_NE(weft("serve llama-3.1-8b --on dgx-h100 --trace " + file).err.find("no requests"), std::string::npos);
  std::ofstream(file) << "arrival_s,input_tokens,output_tokens\n0,10,5\n1,,5\n";
  const Answer a = weft("serve llama-3.1-8b --on dgx-h100 --trace " + file);
  EXPECT_EQ(a.code, 2);
  EXPECT_NE(a.err.find(file + ":3: "), std::string::npos) << a.err;
  std::filesystem::remove(file);
  EXPECT_EQ(weft("serve llama-3.1-8b --on dgx-h100 --trace " + kPages + "arrivals.csv").code, 0);
}

TEST(Serve, CountsOfTokensAreReadAsSizesAre) {
  const json a = json::parse(weft("serve llama-3.1-8b --on dgx-h100 --isl 2K --osl 1 --concurrency 1 --json -").out);
  EXPECT_EQ(a["input_tokens"], 2048);
  // A single token has no time between tokens.
  const Answer words = weft("serve llama-3.1-8b --on dgx-h100 --isl 2K --osl 1 --concurrency 1");
  EXPECT_NE(words.out.find("TPOT -,"), std::string::npos) << words.out;
  EXPECT_EQ(weft("kv size llama-3.1-70b").code, 0);
}

TEST(Serve, KernelsOfACardThatWasNotMeasuredAreSaidToBeScaled) {
  EXPECT_NE(weft("serve llama-3.1-8b --on dgx-a100 --concurrency 1")
                .out.find("kernels scaled from those of H100-SXM5, not measured on A100-SXM4-40GB"),
            std::string::npos);
  EXPECT_NE(weft("serve llama-3.1-8b --on dgx-h100 --concurrency 1").out.find("kernels as measured on H100-SXM5"),
            std::string::npos);
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
    if (!rows[i]["fits"]) continue;
    const auto all = [](const json& row) {
      return row["output_tokens_per_s_per_gpu"].get<double>() * row["gpus"].get<double>();
    };
    EXPECT_LE(all(rows[i]), all(rows[0]));
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
  EXPECT_EQ(a.out.find("8 of 9 rows answered."), 0U) << a.out;
  EXPECT_NE(a.out.find("Columns that are not read: image"), std::string::npos) << a.out;
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

TEST(Serve, CompareNamesMissingColumnsAndPrintsNoErrorsOfWhatWasNotMeasured) {
  const std::string rows = testing::TempDir() + "/rows-" + std::to_string(getpid()) + ".csv";
  std::ofstream(rows) << "id,model_path,system,isl,osl\na,llama-3.1-8b,h100_sxm,8,8\n";
  EXPECT_NE(weft("serve --compare " + rows).err.find("column backend is missing"), std::string::npos);
  std::ofstream(rows) << "id,model_path,system,backend,isl,osl,concurrency,tp\n"
                         "a,llama-3.1-8b,h100_sxm,vllm,128,8,1,2\nb,nothing,h100_sxm,vllm,8,8,1,1\n"
                         "c,nothing,h100_sxm,vllm,8,8,1,1\n";
  const Answer a = weft("serve --compare " + rows);
  EXPECT_EQ(a.code, 1) << a.out;  // two of three rows have no answer
  EXPECT_NE(a.out.find("1 of 3 rows answered."), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("Columns that are not read: tp."), std::string::npos) << a.out;
  EXPECT_EQ(a.out.find(" 0.0 "), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("\nagg "), std::string::npos) << a.out;
  std::filesystem::remove(rows);
}

TEST(Fit, GpusOfSeveralMachinesAreOfferedBeforeTypesThatTheCardLacks) {
  const Answer a = weft("fit deepseek-r1 h100 --gpus 8");
  EXPECT_EQ(a.code, 1) << a.out;
  EXPECT_NE(a.out.find("it fits with --gpus 16"), std::string::npos) << a.out;
  EXPECT_EQ(a.out.find("fp4"), std::string::npos) << a.out;
  EXPECT_EQ(weft("fit deepseek-r1 gb200 --gpus 72").code, 0);
  EXPECT_NE(weft("fit llama-3.1-8b a100-80gb").out.find("A100-SXM4-80GB"), std::string::npos);
  EXPECT_NE(weft("fit llama-3.1-8b a100-pcie").out.find("A100-PCIE-80GB"), std::string::npos);
  EXPECT_NE(weft("fit llama-3.1-8b a100").out.find("A100-SXM4-40GB"), std::string::npos);
}

TEST(Fit, WhatFitsAndWhatWouldMakeItFit) {
  const Answer fits = weft("fit llama-3.1-8b h100"), too_large = weft("fit llama-3.1-70b h100 --precision bf16");
  EXPECT_EQ(fits.code, 0) << fits.err;
  EXPECT_NE(fits.out.find("fits on H100-SXM5"), std::string::npos) << fits.out;
  EXPECT_EQ(too_large.code, 1);
  EXPECT_NE(too_large.out.find("it fits with --gpus 2"), std::string::npos) << too_large.out;
  const json report = json::parse(weft("fit deepseek-r1 b200 --gpus 8 --precision fp4 --json -").out);
  EXPECT_EQ(report["schema"], "weft.fit/1");
  EXPECT_TRUE(report["fits"]);
  EXPECT_GT(report["requests_at_once"], 1);
  // The interval is the measured error of the accuracy page, not a number of the command's own.
  const json accuracy = json::parse(std::ifstream(std::string(WEFT_SOURCE) + "/data/serving/accuracy.json"));
  EXPECT_EQ(report["interval"], accuracy["tpot_error_at_90"]);
}

TEST(Fit, WhatTrainsAndWhatWouldMakeItTrain) {
  const json report = json::parse(weft("fit llama-3.1-8b h100 --gpus 8 --train --json -").out);
  EXPECT_EQ(report["schema"], "weft.fit/1");
  EXPECT_TRUE(report["fits"]);
  EXPECT_FALSE(report["tightly"]);
  double sum = 0;
  for (const char* part :
       {"parameters", "gradients", "optimizer", "activations", "logits", "temporary", "fragmentation", "outside"})
    sum += report[std::string(part) + "_bytes"].get<double>();
  EXPECT_LT(sum, report["capacity_bytes"].get<double>() / 1.15);  // the margin of what fits for certain
  // The rate is that of the same plan by weft train: 8 sequences for each GPU.
  const json step =
      json::parse(weft("train llama-3.1-8b --on dgx-h100 --best --global-batch 64 --top -1 --json -").out);
  bool found = false;
  for (const json& row : step["rows"])
    if (row["plan"] == report["plan"]) {
      found = true;
      EXPECT_NEAR(report["tokens_per_s_per_gpu"].get<double>() * report["step_s"].get<double>(), 8.0 * 8192, 1);
      EXPECT_EQ(report["step_s"], row["step_s"]);
    }
  EXPECT_TRUE(found) << report["plan"];

  const Answer too_large = weft("fit llama-3.1-70b h100 --gpus 8 --train");
  EXPECT_EQ(too_large.code, 1);
  EXPECT_NE(too_large.out.find("it fits with --lora 16, or --gpus 16"), std::string::npos) << too_large.out;
  EXPECT_EQ(weft("fit llama-3.1-70b h100 --gpus 8 --train --lora 16").code, 0);
  EXPECT_EQ(weft("fit llama-3.1-70b h100 --gpus 16 --train").code, 0);
  // The intervals are those of the accuracy page.
  std::stringstream page;
  page << std::ifstream(std::string(WEFT_SOURCE) + "/bench/training-accuracy.md").rdbuf();
  EXPECT_EQ(report["interval"], 0.178);
  EXPECT_NE(page.str().find("17.8 % at 90 %), MoE"), std::string::npos);
  EXPECT_EQ(json::parse(weft("fit qwen3-30b-a3b h200 --gpus 8 --train --json -").out)["interval"], 0.435);
  EXPECT_NE(page.str().find("(43.5 %)."), std::string::npos);
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
