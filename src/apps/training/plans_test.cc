#include <gtest/gtest.h>

#include <random>

#include "apps/training/best.h"
#include "apps/training/compare.h"
#include "apps/training/largest.h"
#include "apps/training/layout.h"
#include "apps/training/software.h"
#include "apps/training/step.h"
#include "machine/machine.h"
#include "plan/cost/shipped.h"

namespace weft::training {
namespace {

std::unique_ptr<cost::MachineView> machine(const std::string& name) {
  auto view = cost::shipped_view(topology::load_machine(name).value());
  return std::make_unique<cost::MachineView>(std::move(view.value()));
}

Step step_of(const Model& m, const Plan& plan, const cost::MachineView& on) {
  const auto checked = check_plan(m, plan);
  EXPECT_TRUE(checked) << (checked ? "" : checked.error().message);
  Traffic traffic(on);
  traffic.estimate_only(true);
  auto step = simulate_step(m, plan, load_card("H100-SXM5", "bf16").value(), traffic);
  EXPECT_TRUE(step) << (step ? "" : step.error().message);
  return step ? *step : Step{};
}

std::vector<std::int64_t> layers_of(const Model& m, const Plan& plan) {
  std::vector<std::int64_t> layers;
  for (const Chunk& c : chunks_of(m, plan)) layers.push_back(c.layers);
  return layers;
}

// 22 layers with embedding and loss are 24: three for each of eight stages, as the zero-bubble paper has them.
TEST(Layout, EmbeddingAndLossCountAsLayersWhereTheLayersDoNotDivide) {
  Model m{.name = "gpt", .layers = 22, .hidden = 64, .heads = 4, .kv_heads = 4, .head_dim = 16, .ffn = 256};
  m = uniform_model(m);
  EXPECT_EQ(layers_of(m, {.pp = 8}), (std::vector<std::int64_t>{2, 3, 3, 3, 3, 3, 3, 2}));
  // 126 layers on 16 stages of 8 chunks: one each, none beside the embedding and the loss.
  m.layers = 126;
  m = uniform_model(m);
  const auto chunks = layers_of(m, {.pp = 16, .vp = 8});
  EXPECT_EQ(chunks.size(), 128u);
  EXPECT_EQ(chunks.front() + chunks.back(), 0);
  EXPECT_EQ(std::ranges::count(chunks, 1), 126);
  EXPECT_EQ(layers_of(m, {.pp = 4, .first_layers = 20, .last_layers = 30}),
            (std::vector<std::int64_t>{20, 38, 38, 30}));
  EXPECT_EQ(check_layout(m, {.pp = 32, .vp = 5}).error().message, "--pp 32 with --vp 5: gpt has only 126 layers");
}

TEST(Layout, MegatronsTextIsReadWithRepeatsAndItsErrorsAreNamed) {
  const auto layout = parse_layout("Et*3|(tt|)*29mL");
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(layout->layers.size(), 31u);
  EXPECT_EQ(layout->layers.front(), 3);
  EXPECT_EQ(layout->layers[1], 2);
  EXPECT_EQ(layout->mtp, 1);
  for (const char* text : {"Ex|L", "E(tt|L", "Ett)|L", "Et*|L", "Et*0|L"}) EXPECT_FALSE(parse_layout(text)) << text;
}

TEST(Steps, PartsAreNeverNegativeAndSumToTheStepOfRandomPlans) {
  std::mt19937 random(7);
  const auto pick = [&](std::initializer_list<std::int64_t> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
  };
  const auto on = machine("dgx-h100:nodes=4");
  const std::vector<Model> models = {load_model("llama3-8b").value(), load_model("qwen3-30b-a3b").value(),
                                     load_model("gpt-oss-20b").value()};
  int tried = 0;
  for (int i = 0; i < 400 && tried < 40; ++i) {
    const Model& m = models[random() % models.size()];
    Plan p{.tp = pick({1, 2, 4}), .pp = pick({1, 2, 4, 8}), .vp = pick({1, 1, 2, 3}), .cp = pick({1, 1, 2})};
    if (32 % (p.tp * p.pp * p.cp) != 0) continue;
    p.dp = 32 / (p.tp * p.pp * p.cp), p.ep = pick({1, 4, 8}), p.etp = pick({1, 1, 2}), p.zero = pick({0, 1, 2, 3});
    p.micro_batch = pick({1, 2}), p.global_batch = 64, p.seq = 4096, p.lora = pick({0, 0, 16});
    p.recompute = static_cast<Recompute>(random() % 3), p.mtp = pick({0, 0, 1});
    p.context_by = static_cast<ContextBy>(random() % 3), p.dispatcher = static_cast<Dispatcher>(random() % 2);
    p.shard = p.zero > 0 && p.replicas() % 4 == 0 ? pick({0, 4}) : 0;
    if (!check_plan(m, p)) continue;
    ++tried;
    const Step s = step_of(m, p, *on);
    const Breakdown& b = s.parts;
    double sum = 0;
    for (const double part : {b.gemm, b.attention, b.memory_bound, b.host, b.tensor, b.context, b.expert, b.imbalance,
                              b.bubble, b.data, b.optimizer}) {
      EXPECT_GE(part, -1e-9) << m.name << ": " << describe(p);
      sum += part;
    }
    EXPECT_NEAR(sum, s.seconds, 1e-9 * s.seconds) << m.name << ": " << describe(p);
    for (const Step::Sends& sends : s.sends) {
      EXPECT_GT(sends.sent.bytes, 0) << sends.of << " of " << m.name << ": " << describe(p);
      if (std::string_view(sends.of) == "data") continue;  // FSDP's waits for its pipeline of gathers count there
      EXPECT_LE(sends.exposed, sends.sent.seconds * (1 + 1e-9)) << sends.of;
    }
  }
  EXPECT_GE(tried, 30);
}

// Sequence parallelism gathers before and scatters behind each block, and gathers the input once more in the backward
// pass; the output layer gathers once and half as often as a block otherwise.
TEST(Steps, CallsAndBytesOfEachParallelismAreThoseCountedByHand) {
  const auto on = machine("dgx-h100:nodes=1");
  const Model m = load_model("llama3-8b").value();
  const Plan p{.tp = 2, .pp = 2, .dp = 2, .zero = 0, .global_batch = 16, .seq = 4096};
  const Step s = step_of(m, p, *on);
  const auto sends = [&](std::string_view of) {
    for (const Step::Sends& one : s.sends)
      if (one.of == of) return one.sent;
    return Sent{};
  };
  const double micro = 8, message = 4096.0 * 4096 * 2;
  EXPECT_NEAR(sends("tensor").calls, micro * (32 * (2 * 2 + 2 * 3) + 2.5) / 2, 1e-6);
  EXPECT_NEAR(sends("tensor").bytes, sends("tensor").calls * message, 1);
  EXPECT_NEAR(sends("pipeline").calls, 2 * micro / 2, 1e-9);  // one edge between two stages
  EXPECT_NEAR(sends("pipeline").bytes, sends("pipeline").calls * message / 2, 1);
  EXPECT_NEAR(sends("data").bytes, static_cast<double>(m.parameters()) / 4 * static_cast<double>(p.gradient_bytes),
              0.01 * sends("data").bytes);
  EXPECT_EQ(sends("expert").calls, 0);
}

// A stage with three times the layers of the other is an imbalance, not a bubble: 24 layers instead of 16, beside which
// the output layer counts as two.
// A layer with eight ranks of tensor parallelism launches 4 GEMMs, 4 kernels of attention that is not fused (scores,
// softmax, dropout, values), 2 norms, 2 sums, an activation and 4 collectives: 17; the output layer a GEMM, the loss
// and a collective: 3. Backward passes launch twice as many.
TEST(Steps, LaunchesThatAreWaitedForAreAddedToTheKernels) {
  const auto on = machine("dgx-a100");
  Model m{.name = "gpt", .layers = 4, .hidden = 4096, .heads = 32, .kv_heads = 32, .head_dim = 128, .ffn = 16384};
  m.vocab = 51200;
  m = uniform_model(m);
  m.positions = 1;
  Plan plan{.tp = 8, .global_batch = 8, .seq = 2048};
  plan.software = 2022, plan.framework = "megatron-deepspeed";
  const auto step = [&] {
    Traffic traffic(*on);
    traffic.estimate_only(true);
    const Card card = with_software(load_card("A100-SXM4-80GB", "bf16").value(), plan).value();
    return simulate_step(m, plan, card, traffic).value();
  };
  const Step waits = step();  // as BigScience trained
  EXPECT_NEAR(waits.parts.host, 8 * 3 * (4 * 17 + 3) * kernels::eager_kernel(), 1e-9);
  plan.launch = kernels::Launch::kEager;
  const Step ahead = step();
  EXPECT_EQ(ahead.parts.host, 0);
  EXPECT_NEAR(waits.seconds - ahead.seconds, waits.parts.host, 1e-9);
  // Of 2025 tensor parallelism hides behind GEMMs, unless each of its kernels is waited for.
  plan.software = 2025;
  const double hidden = step().parts.tensor;
  plan.launch = kernels::Launch::kBlocking;
  EXPECT_GT(step().parts.tensor, 1.2 * hidden);
}

// hiyouga/LlamaFactory issue 9374: 166 s for 4 micro-batches of Qwen3-30B-A3B by DeepSpeed's ZeRO 3 on 8 H100; every
// rank launches some 10 kernels for each of 48 x 128 experts, twice with recomputation, and as many backward.
TEST(Steps, ExpertsThatRunOneAfterTheOtherTakeWhatTheirLaunchesTake) {
  const auto on = machine("dgx-h100");
  const Model m = load_model("qwen3-30b-a3b").value();
  Plan plan{.dp = 8, .zero = 3, .global_batch = 32, .seq = 2048};
  plan.recompute = Recompute::kFull, plan.framework = "transformers", plan.software = 2025;
  const double one_by_one = step_of(m, plan, *on).seconds;
  EXPECT_GT(one_by_one, 4 * 3 * 48 * 1280 * kernels::eager_kernel());
  EXPECT_LT(one_by_one, 166);
  plan.software = 2026, plan.month = 3;
  EXPECT_LT(step_of(m, plan, *on).seconds, 0.3 * one_by_one);
}

TEST(Steps, AnUnevenStageIsAnImbalance) {
  const auto on = machine("dgx-h100:nodes=1");
  const Model m = load_model("llama3-8b").value();
  Plan even{.pp = 2, .dp = 4, .global_batch = 256, .seq = 4096}, uneven = even;
  uneven.first_layers = 24;
  const Step a = step_of(m, even, *on), b = step_of(m, uneven, *on);
  EXPECT_GT(b.seconds, 1.2 * a.seconds);
  EXPECT_GT(b.parts.imbalance, 5 * b.parts.bubble);
}

TEST(Steps, AdaptersSaveTheWeightsGradientsTheirMemoryAndTime) {
  const auto on = machine("dgx-h100:nodes=1");
  const Model m = load_model("llama3-8b").value();
  Plan plan{.dp = 8, .global_batch = 64, .seq = 4096};
  const Step whole = step_of(m, plan, *on);
  plan.lora = 16;
  const Step adapted = step_of(m, plan, *on);
  // Two of three GEMMs are left, and thin ones beside.
  EXPECT_LT(adapted.parts.gemm, 0.85 * whole.parts.gemm);
  EXPECT_GT(adapted.parts.gemm, 0.6 * whole.parts.gemm);
  EXPECT_LT(adapted.peak.gradients + adapted.peak.optimizer, 0.05 * (whole.peak.gradients + whole.peak.optimizer));
  plan.lora = 0, plan.frozen = parse_frozen("all").value();
  EXPECT_EQ(step_of(m, plan, *on).peak.gradients, 0);
  EXPECT_FALSE(parse_frozen("attention,heads"));
}

TEST(Steps, ExpertsMatricesAreSharedByTheirTensorParallelRanks) {
  const auto on = machine("dgx-h100:nodes=2");
  const Model m = load_model("mixtral-8x7b").value();
  Plan plan{.tp = 4, .dp = 4, .ep = 2, .global_batch = 64, .seq = 4096};
  const Step alone = step_of(m, plan, *on);
  plan.etp = 4;
  const Step shared = step_of(m, plan, *on);
  EXPECT_LT(shared.peak.parameters, 0.5 * alone.peak.parameters);
  EXPECT_GT(shared.parts.expert, alone.parts.expert);
  plan.etp = 3;
  EXPECT_EQ(check_plan(m, plan).error().message, "--ep 2 times --etp 3 does not divide the 16 ranks of a stage");
}

TEST(Steps, StateThatIsSharedWithinANodeIsLargerAndItsGradientsCrossNodes) {
  const auto on = machine("dgx-h100:nodes=4,net=eth-100");
  const Model m = load_model("llama3-8b").value();
  Plan plan{.dp = 32, .zero = 3, .global_batch = 32, .seq = 2048};
  const Step all = step_of(m, plan, *on);
  plan.shard = 8;
  const Step node = step_of(m, plan, *on);
  EXPECT_NEAR(node.peak.optimizer, 4 * all.peak.optimizer, 1e-3 * node.peak.optimizer);
  // Gradients of a node's shard, summed with three other nodes, remain on the slow network.
  EXPECT_GT(node.data_total, 0);
  EXPECT_NE(node.seconds, all.seconds);
}

TEST(Steps, DeepEpSendsATokenOnceToEachNode) {
  const auto on = machine("dgx-h100:nodes=2");
  const Model m = load_model("qwen3-30b-a3b").value();
  Plan plan{.dp = 16, .ep = 16, .global_batch = 64, .seq = 4096};
  const Step copies = step_of(m, plan, *on);
  plan.dispatcher = Dispatcher::kDeepEp;
  EXPECT_LT(step_of(m, plan, *on).parts.expert, 0.5 * copies.parts.expert);
}

TEST(Memory, FitsForCertainTightlyOrNotAndTheLargestIsWhatStillFits) {
  const Model m = load_model("llama3-8b").value();
  const Card card = load_card("H100-SXM5", "bf16").value();
  StageMemory memory;
  for (const auto& [share, verdict] :
       {std::pair(0.8, Fit::kCertain), {0.9, Fit::kTight}, {1.1, Fit::kTight}, {1.2, Fit::kNo}}) {
    memory.activations = share * card.memory;
    EXPECT_EQ(fit(memory, card), verdict) << share;
  }
  const Plan plan{.dp = 8, .zero = 3, .global_batch = 64, .seq = 4096};
  const Largest most = largest(m, plan, card);
  Plan larger = plan;
  larger.micro_batch = most.micro_batch;
  EXPECT_EQ(fit(peak_memory(m, larger, card), card), Fit::kCertain);
  ++larger.micro_batch;
  EXPECT_NE(fit(peak_memory(m, larger, card), card), Fit::kCertain);
  EXPECT_GT(most.micro_batch_tight, most.micro_batch);
  EXPECT_GT(most.seq_tight, most.seq);
}

TEST(Software, AReleaseIsAFrameworkAndItsMonth) {
  EXPECT_EQ(parse_release("megatron-bridge-26.04").value(), (Release{"megatron-bridge", 2026, 4}));
  EXPECT_EQ(parse_release("2025").value(), (Release{"", 2025, 0}));
  EXPECT_EQ(parse_release("torchtitan").value(), (Release{"torchtitan", 0, 0}));
  for (const char* text : {"", "1890", "nobody-2025", "2025.13", "megatron-bridge 1999"})
    EXPECT_FALSE(parse_release(text)) << text;
}

// Two samples of one card at 0.8 weigh as two, the level above (1, without other frameworks: their median again) as
// one.
TEST(Software, LevelsAreDrawnToTheLevelAboveAndFallBackToIt) {
  const LevelKey own{{"nemo", 2025, 4}, "90", "bf16", false};
  const std::vector<LevelSample> samples = {{own, "a", 0.8}, {own, "b", 0.8}};
  const auto levels = fit_levels(samples);
  // At each of five widths two thirds of what is left to 0.8: 0.8 to the power of 1 - 1/3, 1 - 1/9, …, 1 - 1/243.
  EXPECT_NEAR(level_of(levels, own), std::pow(0.8, 1 - 1.0 / 243), 1e-9);
  LevelKey other = own;
  other.release.month = 9;
  EXPECT_NEAR(level_of(levels, other), std::pow(0.8, 1 - 1.0 / 81), 1e-9);
  other.release.framework = "maxtext";
  EXPECT_NEAR(level_of(levels, other), std::pow(0.8, 1 - 1.0 / 3), 1e-9);
  other.experts = true;
  EXPECT_EQ(level_of(levels, other), 1);
}

TEST(Compare, ARowThatCannotBeAnsweredIsNamedAndAllOthersAreAnswered) {
  const auto found = compare_text("t.csv",
                                  "id,model,layers,hidden,heads,kv_heads,seq,gbs,gpus,gpu,precision,tp,pp,vp,step_s\n"
                                  "a,m,24,1024,16,16,2048,32,8,H100,bf16,1,1,1,0.5\n"
                                  "b,m,24,1024,16,MLA,2048,32,8,H100,bf16,1,1,1,0.5\n"
                                  "c,m,,,,,2048,32,8,H100,bf16,1,1,1,0.5\n"
                                  "d,m,24,1024,16,16,2048,32,8,H100 + A100,bf16,1,1,1,0.5\n"
                                  "e,m,22,1024,16,16,2048,32,8,H100,bf16,1,8,3,0.5\n");
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->rows.size(), 5u);
  EXPECT_TRUE(found->rows[0].skipped.empty()) << found->rows[0].skipped;
  EXPECT_EQ(found->rows[0].memory, 0);
  EXPECT_EQ(found->rows[1].skipped, "t.csv:3: kv_heads 'MLA' is no number above 0");
  EXPECT_EQ(found->rows[2].skipped, "t.csv:4: layers, hidden and heads are needed");
  EXPECT_EQ(found->rows[3].skipped, "GPU 'H100 + A100' names several cards: a step is that of one kind");
  EXPECT_TRUE(found->rows[4].skipped.empty()) << found->rows[4].skipped;
  EXPECT_NE(in_words(*found, false).find("Not predicted: 1 row: kv_heads 'MLA' is no number above 0 (b)"),
            std::string::npos);
}

// DeepSeek-V3 trained at 1,540 tokens a second and GPU (arXiv 2412.19437: 180,000 H800-hours a trillion tokens) with
// its tokens' way to the experts hidden, which without that takes a quarter of the step.
TEST(Experts, TokensThatTravelBesideAnotherMicroBatchAreHidden) {
  const auto on = machine("dgx-h100:nodes=16,net=ib-ndr");
  const Model m = load_model("deepseek-v3").value();
  Plan plan{.pp = 2, .dp = 64, .ep = 64, .micro_batch = 1, .global_batch = 2048, .seq = 4096};
  plan.dispatcher = Dispatcher::kDeepEp;
  const Step exposed = step_of(m, plan, *on);
  plan.overlap_experts = 1;
  const Step hidden = step_of(m, plan, *on);
  EXPECT_LT(hidden.seconds, 0.9 * exposed.seconds);
  EXPECT_LT(hidden.parts.expert, 0.2 * exposed.parts.expert);
  EXPECT_GT(hidden.parts.expert, 0);                       // the pipeline's ends
  EXPECT_GT(hidden.parts.gemm, 1.1 * exposed.parts.gemm);  // beside, computing has fewer multiprocessors
  plan.ep = 1;
  const Status refused = check_plan(m, plan);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("--overlap-experts 1 needs --ep of at least 2"), std::string::npos);
}

// Rows of bench/results/2026-11-26-h200-steps.csv and -steps-kept.csv, measured by bench/gpu/training_steps.py: of
// models that are not compiled, with gradients made after the peak, with a vocabulary that is not padded.
TEST(Compare, StepsOfTransformersModelsOnAnH200AreAsMeasured) {
  const std::string columns =
      "id,model,layers,hidden,heads,kv_heads,ffn,vocab,tied,seq,gbs,mbs,gpus,gpu,precision,gradient_bytes,"
      "optimizer_bytes,tp,pp,dp,recompute,overlap,step_s,mem_gib,software\n";
  const auto found = compare_text(
      "t.csv",
      columns +
          R"(G2,gpt2,12,768,12,12,3072,50257,1,1024,32,32,1,H200,bf16,2,4,1,1,1,none,eager,0.16085,38.332,transformers 2026.10
G7,qwen2.5-1.5b,28,1536,12,2,8960,151936,1,4096,2,2,1,H200,bf16,2,4,1,1,1,none,eager,0.22531,46.404,transformers 2026.10
G10,llama-3.1-8b,32,4096,32,8,14336,128256,0,4096,1,1,1,H200,bf16,2,4,1,1,1,none,eager,0.44360,76.840,transformers 2026.10
G15,llama-3.2-1b,16,2048,32,8,8192,128256,1,2048,4,4,1,H200,bf16,2,4,1,1,1,none,compiled,0.14147,24.307,transformers 2026.10
G104,llama2-7b,32,4096,32,32,11008,32000,0,4096,2,2,1,H200,bf16,2,4,1,1,1,none,eager,0.77535,87.711,transformers 2026.10
G105,llama2-7b,32,4096,32,32,11008,32000,0,2048,8,8,1,H200,bf16,2,4,1,1,1,full,eager,1.84327,55.062,transformers 2026.10
)");
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->rows.size(), 6U);
  for (const Compared& row : found->rows) {
    EXPECT_TRUE(row.skipped.empty()) << row.id << ": " << row.skipped;
    EXPECT_NEAR(row.error(), 0, 0.05) << row.id;
    EXPECT_NEAR(row.memory_predicted / row.memory, 1, 0.06) << row.id;
  }
}

TEST(Best, KeepsWhatTheAskerFixedAndSaysWhichPlansAreEqual) {
  const auto on = machine("dgx-h100:nodes=2");
  Traffic traffic(*on);
  Plan base{.tp = 4, .micro_batch = 2, .global_batch = 64, .seq = 8192};
  const auto plans = best_plans(load_model("llama3-8b").value(), base, load_card("H100-SXM5", "bf16").value(), traffic,
                                1, {}, {"tp", "micro-batch"});
  ASSERT_TRUE(plans) << plans.error().message;
  const double best = plans->ranked.front().step.seconds;
  for (const Ranked& r : plans->ranked) {
    EXPECT_EQ(r.plan.tp, 4);
    EXPECT_EQ(r.plan.micro_batch, 2);
    if (&r == &plans->ranked.front()) continue;
    EXPECT_EQ(r.alike, r.step.seconds <= best * (1 + kAlike));
  }
  const auto none = best_plans(load_model("llama3-8b").value(), {.tp = 3, .global_batch = 64, .seq = 8192},
                               load_card("H100-SXM5", "bf16").value(), traffic, 1, {}, {"tp"});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("and the given tp"), std::string::npos);
  // The first plan that was tried says what all of them fail by.
  const auto odd = best_plans(load_model("llama3-8b").value(), {.layout = {16, 15}, .global_batch = 64, .seq = 8192},
                              load_card("H100-SXM5", "bf16").value(), traffic, 1, {}, {});
  ASSERT_FALSE(odd);
  EXPECT_NE(odd.error().message.find("--layout"), std::string::npos) << odd.error().message;
}

}  // namespace
}  // namespace weft::training
