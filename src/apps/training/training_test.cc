#include <gtest/gtest.h>

#include "apps/training/best.h"
#include "apps/training/compare.h"
#include "apps/training/files.h"
#include "apps/training/pictures.h"
#include "apps/training/step.h"
#include "apps/training/test_inputs.h"
#include "base/text_file.h"
#include "machine/machine.h"
#include "plan/cost/shipped.h"

namespace weft::training {
namespace {

// Published sizes, in 10^9 parameters: the papers round them.
TEST(Models, HaveAsManyParametersAsTheirPapersSay) {
  const std::tuple<const char*, double, double> sizes[] = {
      {"llama2-7b", 6.74, 6.74},    {"llama2-70b", 69.0, 69.0},    {"llama3-8b", 8.03, 8.03},
      {"llama3-70b", 70.6, 70.6},   {"llama3-405b", 405.9, 405.9}, {"gpt3-175b", 174.6, 174.6},
      {"mixtral-8x7b", 46.7, 12.9}, {"deepseek-v3", 671, 37},      {"qwen3-30b-a3b", 30.5, 3.3}};
  for (const auto& [name, all, active] : sizes) {
    const Model m = model(name);
    EXPECT_NEAR(static_cast<double>(m.parameters()) * 1e-9 / all, 1, 0.01) << name;
    EXPECT_NEAR(static_cast<double>(m.active_parameters()) * 1e-9 / active, 1, 0.04) << name;
  }
}

TEST(Models, AMissingKeyAndAnotherArchitectureAreNamed) {
  const auto missing =
      parse_model("c.json", R"({"model_type":"llama","hidden_size":64,"num_attention_heads":4,"vocab_size":9})");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "c.json: key num_hidden_layers is missing");
  const auto bert = parse_model("c.json", R"({"model_type":"bert","num_hidden_layers":2,"hidden_size":64})");
  ASSERT_FALSE(bert);
  EXPECT_NE(bert.error().message.find("is an encoder"), std::string::npos);
}

TEST(Models, KeysThatMatterAndAreLeftOutAreNamed) {
  const auto m =
      parse_model("c.json", R"({"model_type":"mistral","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,
    "vocab_size":100,"intermediate_size":128,"num_nextn_predict_layers":1})");
  ASSERT_TRUE(m);
  EXPECT_EQ(m->not_modelled, std::vector<std::string>{"num_nextn_predict_layers"});
}

// Every layer sees 1,024 of 4,096 keys: 2 * 1/4 - 1/16 = 0.4375 of the scores of causal attention.
TEST(Models, WindowsComputeFewerScores) {
  const std::string start = R"({"num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,"vocab_size":100,
    "intermediate_size":128,"max_position_embeddings":4096,"model_type":")";
  const Model windows = *parse_model("c.json", start + R"(mistral","sliding_window":1024})");
  const Model whole = *parse_model("c.json", start + R"(mistral"})");
  EXPECT_DOUBLE_EQ(windows.attention_share(4096), 0.4375);
  EXPECT_DOUBLE_EQ(windows.attention_share(1024), 1);
  EXPECT_DOUBLE_EQ(whole.attention_share(4096), 1);
  EXPECT_DOUBLE_EQ(whole.projection_share(), 1);
}

// Two layers of eight attend; six keep the state of a gated delta net. Their parameters count, and a step takes less
// than one whose layers all attend.
TEST(Models, AHybridCountsTheParametersOfItsRecurrentLayers) {
  const Model hybrid = *parse_model("c.json", R"({"model_type":"qwen3_next","num_hidden_layers":8,"hidden_size":2048,
    "num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,"linear_num_value_heads":32,
    "linear_num_key_heads":16,"linear_key_head_dim":128,"linear_value_head_dim":128,"intermediate_size":5120,
    "vocab_size":151936})");
  EXPECT_EQ(hybrid.recurrent_layers, 6);
  EXPECT_EQ(hybrid.recurrent_state, 32 * 128 * 128);
  EXPECT_DOUBLE_EQ(hybrid.attention_share(4096), 0.25);
  // Attention: queries and their gate 2 * 2048 * 4096, keys and values 2 * 2048 * 512, output 4096 * 2048.
  EXPECT_EQ(hybrid.attention_matrix, 2048 * (2 * 4096 + 2 * 512 + 4096));
  // Delta net: 2048 * (2 * 2048 + 2 * 4096 + 64), a convolution of 4 over 8,192, output 4096 * 2048.
  EXPECT_EQ(hybrid.mixer_total, 2 * hybrid.attention_matrix + 6 * (2048 * 12352 + 4 * 8192 + 4096 * 2048));
}

TEST(Plans, ThatDoNotDivideAreRefusedByName) {
  const Model m = model("llama3-8b");
  Plan plan{.dp = 8, .global_batch = 16, .seq = 8192};
  EXPECT_TRUE(check_plan(m, plan));
  plan.tp = 3;
  EXPECT_EQ(check_plan(m, plan).error().message, "--tp 3 does not divide 32 heads of llama3-8b");
  plan.tp = 1, plan.global_batch = 12;
  EXPECT_EQ(check_plan(m, plan).error().message, "--global-batch 12 is no multiple of dp 8 times --micro-batch 1");
  plan.global_batch = 16, plan.ep = 2;
  EXPECT_EQ(check_plan(m, plan).error().message, "--ep 2: llama3-8b has no experts");
  plan.ep = 1, plan.lora = 4097;
  EXPECT_EQ(check_plan(m, plan).error().message,
            "--lora 4097: llama3-8b has a hidden size of 4096, which the rank of an adapter does not exceed");
}

// accelerate, axolotl and LLaMA-Factory train transformers' models, whose layers are not compiled.
TEST(Plans, FrameworksAroundFsdpRunTransformersLayersEagerly) {
  Plan plan{.dp = 8, .global_batch = 16, .seq = 8192};
  plan.software = 2025, plan.framework = "fsdp";
  EXPECT_TRUE(plan.runs_eagerly() && plan.composes_layers() && plan.flash2());
  plan.eager = 0;
  EXPECT_FALSE(plan.runs_eagerly());
}

// 34 s b h / t + 5 a s² b / t bytes of activations in a layer of GPT with sequence parallelism (arXiv 2205.05198,
// section 4): 22B of its table 3 has h 6144, a 64, s 2048, b 4, t 8: 34 · 2048 · 4 · 6144 / 8 = 0.199 GiB, and the
// scores 5 · 64 · 2048² · 4 / 8 = 0.625 GiB; 48 layers: 39.6 GiB. Embedding's output: 2 · 2048 · 4 · 6144 / 8 = 0.012
// GiB.
TEST(Memory, ActivationsOfGptFollowThePublishedCount) {
  Model m{.name = "gpt-22b",
          .layers = 48,
          .hidden = 6144,
          .heads = 64,
          .kv_heads = 64,
          .head_dim = 96,
          .ffn = 24576,
          .vocab = 51200};
  m.gated = false, m.tied = true;
  m = uniform_model(m);
  const Plan plan{.tp = 8, .zero = 0, .micro_batch = 4, .global_batch = 4, .seq = 2048, .software = 2022};
  const StageMemory memory = memory_of_stage(m, plan, card("A100-SXM4-80GB"), 0);
  EXPECT_NEAR(memory.activations / kGiB, 39.6, 0.2);
  // 22.0e9 / 8 parameters at 2 + 4 + 12 bytes: 45.56 GiB is published with 18 bytes each.
  EXPECT_NEAR((memory.parameters + memory.gradients + memory.optimizer) / kGiB, 45.56, 0.8);
}

TEST(Memory, ZeroSpreadsWhatItsStageSays) {
  const Model m = model("llama3-8b");
  Plan plan{.dp = 8, .zero = 0, .global_batch = 8, .seq = 4096};
  const Card h100 = card("H100-SXM5");
  const StageMemory none = memory_of_stage(m, plan, h100, 0);
  plan.zero = 1;
  EXPECT_NEAR(memory_of_stage(m, plan, h100, 0).optimizer, none.optimizer / 8, 1);
  plan.zero = 2;
  EXPECT_NEAR(memory_of_stage(m, plan, h100, 0).gradients, none.gradients / 8, 1);
}

TEST(Traffic, GroupsThatAreANodeApartShareTheNicsOfTheNode) {
  const auto view = machine("dgx-h100:nodes=4");
  Traffic traffic(*view);
  const auto within = traffic(Collective::kAllReduce, {8, 1}, Bytes{1} << 28);
  const auto across = traffic(Collective::kAllReduce, {4, 8}, Bytes{1} << 28);
  ASSERT_TRUE(within && across);
  // A ring over 4 GPUs moves 1.5 × 256 MiB through a NIC of 50 GB/s: 8 ms at the least; NVLink carries 450 GB/s.
  EXPECT_GT(across->seconds, 0.008);
  EXPECT_LT(across->seconds, 0.016);
  EXPECT_LT(within->seconds, across->seconds / 4);
  EXPECT_EQ(traffic(Collective::kAllReduce, {1, 1}, 1000)->seconds, 0);
  EXPECT_FALSE(traffic(Collective::kAllReduce, {8, 8}, 1000));
}

TEST(Traffic, AsNcclChoosesWhatItsTunerTakesAndIsNeverFasterThanTheBestEstimate) {
  const auto view = machine("dgx-h100");
  Traffic traffic(*view);
  traffic.estimate_only(true);
  bool differs = false;
  for (const Bytes bytes : {Bytes{1} << 14, Bytes{1} << 18, Bytes{1} << 24, Bytes{1} << 28}) {
    traffic.choose_as_nccl(false);
    const auto own = traffic(Collective::kAllReduce, {8, 1}, bytes);
    traffic.choose_as_nccl(true);
    const auto nccl = traffic(Collective::kAllReduce, {8, 1}, bytes);
    ASSERT_TRUE(own && nccl);
    EXPECT_GE(nccl->seconds, own->seconds * (1 - 1e-9)) << bytes;
    EXPECT_TRUE(nccl->algorithm == "ring" || nccl->algorithm.find("tree") != std::string::npos ||
                nccl->algorithm.find("nvls") != std::string::npos)
        << nccl->algorithm;
    differs |= nccl->algorithm != own->algorithm || nccl->seconds > own->seconds * 1.001;
    traffic.choose_as_nccl(false);  // answers of both are kept apart
    EXPECT_EQ(traffic(Collective::kAllReduce, {8, 1}, bytes)->seconds, own->seconds);
  }
  EXPECT_TRUE(differs);
}

TEST(Steps, PartsSumToTheStepAndMoreGpusAreFaster) {
  const Model m = model("llama3-8b");
  const Card h100 = card("H100-SXM5");
  double before = 0;
  for (const std::int64_t nodes : {1, 4}) {
    const auto view = machine(fmt::format("dgx-h100:nodes={}", nodes));
    Traffic traffic(*view);
    const Plan plan{.tp = 2, .pp = 2, .dp = 2 * nodes, .micro_batch = 1, .global_batch = 64, .seq = 8192};
    const auto step = simulate_step(m, plan, h100, traffic);
    ASSERT_TRUE(step);
    const Breakdown& p = step->parts;
    EXPECT_NEAR(p.compute() + p.host + p.tensor + p.context + p.expert + p.imbalance + p.bubble + p.data + p.optimizer,
                step->seconds, 1e-9);
    EXPECT_GT(p.bubble, 0);
    if (before > 0) {
      EXPECT_LT(step->seconds, before / 2);
    }
    before = step->seconds;
  }
}

TEST(Steps, TooFewGpusAreNamed) {
  const auto view = machine("dgx-h100");
  Traffic traffic(*view);
  const auto step =
      simulate_step(model("llama3-8b"), {.tp = 8, .dp = 2, .global_batch = 2, .seq = 4096}, card("H100-SXM5"), traffic);
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().message, "the plan needs 16 GPUs (tp 8 x pp 1 x cp 1 x dp 2), the machine has 8");
}

TEST(Best, RanksPlansAndSaysWhyEachLost) {
  const auto view = machine("dgx-h100");
  Traffic traffic(*view);
  const auto plans = best_plans(model("llama3-8b"), {.global_batch = 32, .seq = 8192}, card("H100-SXM5"), traffic, 2);
  ASSERT_TRUE(plans);
  ASSERT_GT(plans->ranked.size(), 2u);
  EXPECT_TRUE(plans->ranked[0].reason.empty());
  for (std::size_t i = 1; i < plans->ranked.size(); ++i) EXPECT_FALSE(plans->ranked[i].reason.empty());
  for (const auto& refused : plans->refused) EXPECT_NE(refused.reason.find("needs"), std::string::npos);
}

Step step_of(const Model& m, const Plan& plan, const cost::MachineView& on) {
  EXPECT_TRUE(check_plan(m, plan));
  Traffic traffic(on);
  auto step = simulate_step(m, plan, card("H100-SXM5"), traffic);
  EXPECT_TRUE(step) << (step ? "" : step.error().message);
  return step ? *step : Step{};
}

TEST(Step, WithoutOverlapGradientsTravelAfterTheLastPass) {
  const Model m = model("llama3-8b");
  const auto on = machine("dgx-h100:nodes=2,net=ib-ndr");
  Plan plan{.dp = 16, .zero = 1, .global_batch = 64, .seq = 8192};
  const Step beside = step_of(m, plan, *on);
  plan.overlap = 0;
  const Step between = step_of(m, plan, *on);
  EXPECT_GT(between.seconds, beside.seconds);
  // Nothing is hidden: all of the gradients' reduction and of the gather of weights is exposed.
  EXPECT_NEAR(between.parts.data, between.data_total, 1e-9);
  EXPECT_DOUBLE_EQ(between.data_begin[0], between.pipeline.stage_end[0]);
  EXPECT_LT(beside.parts.data, beside.data_total);
  EXPECT_LT(beside.data_begin[0], beside.pipeline.stage_end[0]);
}

// Norms, rotary embeddings and activations of a model that is not compiled pass through memory between kernels; GEMMs
// and attention are the same. By torchtitan's own measurement compiling takes 14 % off such a step
// (benchmarks/llama3_h100_202412_torchtitan.md: 5762 and 6667 tokens a second).
TEST(Step, EagerKernelsCostMemoryTrafficOnly) {
  const Model m = model("llama3-8b");
  const auto on = machine("dgx-h100");
  Plan plan{.dp = 8, .zero = 3, .micro_batch = 2, .global_batch = 16, .seq = 8192};
  plan.recompute = Recompute::kSelective;
  const Step compiled = step_of(m, plan, *on);
  plan.eager = 1;
  const Step eager = step_of(m, plan, *on);
  EXPECT_DOUBLE_EQ(eager.parts.gemm, compiled.parts.gemm);
  EXPECT_DOUBLE_EQ(eager.parts.attention, compiled.parts.attention);
  EXPECT_GT(eager.parts.memory_bound, 2 * compiled.parts.memory_bound);
  EXPECT_GT(eager.seconds, 1.1 * compiled.seconds);
  EXPECT_LT(eager.seconds, 1.4 * compiled.seconds);
  // GPT has LayerNorm and no gated activation, for which PyTorch has kernels.
  Plan gpt{.dp = 8, .zero = 3, .global_batch = 16, .seq = 1024};
  const Step one = step_of(model("gpt3-175b"), gpt, *on);
  gpt.eager = 1;
  EXPECT_DOUBLE_EQ(step_of(model("gpt3-175b"), gpt, *on).seconds, one.seconds);
  gpt.eager = 2;
  EXPECT_FALSE(check_plan(model("gpt3-175b"), gpt));
}

TEST(Step, SmallBucketsCostTheirLatencyAndOneOfAllHidesNothing) {
  const Model m = model("llama3-8b");
  const auto on = machine("dgx-h100:nodes=2,net=ib-ndr");
  Plan plan{.dp = 16, .zero = 0, .global_batch = 64, .seq = 8192};
  const auto with = [&](std::int64_t bucket) {
    plan.bucket = bucket;
    return step_of(m, plan, *on);
  };
  const Step one = with(1), usual = with(25), whole = with(1 << 20), framework = with(0);
  EXPECT_GT(one.data_total, 1.2 * usual.data_total);    // a launch and two latencies for each of 30,000 buckets
  EXPECT_NEAR(framework.seconds, usual.seconds, 1e-9);  // DDP's 25 MiB
  EXPECT_GT(whole.parts.data, usual.parts.data);        // the only bucket is complete with the last layer
  plan.bucket = -1;
  EXPECT_FALSE(check_plan(m, plan));
  plan.bucket = 0, plan.overlap = 2;
  EXPECT_FALSE(check_plan(m, plan));
}

Answer answer_to(const std::string& words, const std::string& on) {
  auto parsed = parse_words(words);
  EXPECT_TRUE(parsed);
  parsed->on = on;
  const auto view = machine(on);
  auto found = answer(model(parsed->model), *view, *parsed);
  EXPECT_TRUE(found) << (found ? "" : found.error().message);
  return *found;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Pictures, AStepHasALanePerStageWithEveryPassAndItsMemory) {
  const Answer a = answer_to("llama3-8b:pp=4,zero=1,global-batch=32", "dgx-h100");
  const std::string svg = step_svg(a);
  for (const char* text : {">stage 0<", ">stage 3<", ">exposed: nothing is computed<", ">gradients on the wire<"})
    EXPECT_EQ(count(svg, text), 1u) << text;
  EXPECT_EQ(count(svg, ">stage 4<"), 0u);
  // 4 stages x 16 micro-batches of two replicas, forward; samples of the legend; a part of every memory bar.
  EXPECT_EQ(count(svg, "fill=\"#c9d3ee\""), 4u * 16 + 2 + 4);
  EXPECT_NE(svg.find(fmt::format("{:.1f}<", a.step.stages[0].total() / 1073741824.0)), std::string::npos);
}

TEST(Pictures, TheParetoFrontIsThePlansThatNoOtherBeatsInBoth) {
  const auto plan = [](double seconds, double bytes) {
    Ranked r;
    r.step.seconds = seconds;
    r.step.peak.parameters = bytes;
    return r;
  };
  const std::vector<Ranked> plans = {plan(1.0, 50), plan(1.1, 60), plan(1.2, 40), plan(1.3, 40), plan(1.4, 10)};
  EXPECT_EQ(pareto_front(plans), (std::vector<std::size_t>{0, 2, 4}));
}

TEST(Pictures, ScalingGoesFromOneReplicaToAll) {
  const auto on = machine("dgx-h100:nodes=4,net=ib-ndr");
  const Answer a = answer_to("llama3-8b:tp=2,zero=1,global-batch=64", "dgx-h100:nodes=4,net=ib-ndr");
  const auto points = scaling(model("llama3-8b"), *on, a);
  ASSERT_TRUE(points) << points.error().message;
  ASSERT_EQ(points->size(), 5u);  // 1, 2, 4, 8, 16 replicas
  EXPECT_EQ(points->front().gpus, 2);
  EXPECT_EQ(points->back().gpus, 32);
  EXPECT_NEAR(points->back().weak_mfu, a.step.mfu, 1e-12);
  // A batch of 64 on one replica has the most micro-batches, behind which the optimizer and the gradients count least.
  EXPECT_GT(points->front().strong_mfu, points->back().strong_mfu);
  EXPECT_GT(scaling_svg(*points, a.report).size(), 1000u);
}

// The level of Megatron-LM on A100 was fitted to these rows among others.
TEST(Compare, PublishedStepsOfMegatronOnA100ArePredictedToThirteenPercent) {
  const auto found = compare_file(std::string(WEFT_SOURCE) + "/data/training/steps.csv");
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->rows.size(), 9u);
  for (const Compared& row : found->rows) {
    EXPECT_TRUE(row.skipped.empty()) << row.skipped;
    EXPECT_LT(std::abs(row.error()), 0.13) << row.id;
    EXPECT_TRUE(row.fitted) << row.id;
  }
}

TEST(Card, AttentionOf2023IsSlowerOnHopperOnly) {
  for (const auto& [part, slower] : {std::pair("H100-SXM5", 0.35 / 0.6), std::pair("A100-SXM4-80GB", 1.0)})
    EXPECT_DOUBLE_EQ(load_card(part, "bf16")->attention_before_2024, slower) << part;
}

TEST(Card, SharesAreThoseOfKernelsAloneTimesWhatTrainingSustains) {
  const auto card = load_card("H100-SXM5", "bf16");
  ASSERT_TRUE(card.has_value());
  EXPECT_LT(card->gemm, 0.803);  // of large GEMMs alone
  EXPECT_GT(card->gemm, 0.8 * 0.803);
  EXPECT_TRUE(fitted_on("dgxc", "bf16"));
  EXPECT_FALSE(fitted_on("dgxc", "fp8"));
}

TEST(Compare, SwappedColumnsAreNamedWithLineAndColumn) {
  const auto found = compare_text("t.csv",
                                  "model,layers,hidden,heads,seq,gbs,gpus,gpu,precision,tp,pp,step_s\n"
                                  "m,24,16,2048,2048,512,32,A100,bf16,1,1,3.5\n");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message, "t.csv:2: heads 2048 are more than hidden; are columns swapped?");
  const auto missing = compare_text("t.csv", "model,layers\nm,24\n");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "t.csv: column hidden is missing");
}

// 24 layers of 2,048: 6 · (24 · 12 · 2048² + …) FLOP a token. 512 · 2048 tokens on 32 GPUs take an A100 a second or so.
TEST(Compare, StepsThatNoCardTakesAreRefusedAndATableWithoutAnAnswerIsAnError) {
  const auto compare = [](const char* gpu, const char* tp, const char* seconds) {
    return compare_text("t.csv", fmt::format("model,layers,hidden,heads,seq,gbs,gpus,gpu,precision,tp,pp,step_s\n"
                                             "m,24,2048,16,2048,512,32,{},bf16,{},1,{}\n",
                                             gpu, tp, seconds));
  };
  EXPECT_TRUE(compare("A100", "1", "3.5"));
  for (const char* seconds : {"3500", "0.0035"}) {
    const auto found = compare("A100", "1", seconds);
    ASSERT_FALSE(found) << seconds;
    EXPECT_TRUE(found.error().message.starts_with(fmt::format("t.csv:2: step_s {} is ", seconds)))
        << found.error().message;
  }
  EXPECT_EQ(compare("Z900", "1", "3.5").error().message, "t.csv:2: GPU 'Z900' is in no row of data/training/gpus.json");
  EXPECT_TRUE(compare("A100", "7", "3.5").error().message.starts_with("t.csv:2: ")) << "32 do not divide by 7";
}

TEST(Card, APrecisionThatIsNoneDiffersFromOneThatTheCardLacks) {
  EXPECT_EQ(load_card("H100-SXM5", "int4").error().message, "--precision int4 is none of bf16, fp8, mxfp8, fp4");
  EXPECT_EQ(load_card("A100-SXM4-80GB", "fp8").error().message,
            "--precision fp8: A100-SXM4-80GB has no such units in the catalogue");
}

}  // namespace
}  // namespace weft::training
