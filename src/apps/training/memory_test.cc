#include "apps/training/memory.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "apps/training/measured_steps.h"
#include "apps/training/outside.h"
#include "apps/training/tensors.h"
#include "machine/machine.h"
#include "plan/cost/shipped.h"

namespace weft::training {
namespace {

constexpr double kGiB = 1073741824.0;

Card h100() { return load_card("H100-SXM5", "bf16").value(); }

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

TEST(Tensors, WeightsOfALayerSumToItsParameters) {
  const Plan plan{.tp = 2, .ep = 4};
  const Model dense = load_model("llama3-8b").value(), moe = load_model("qwen3-30b-a3b").value();
  EXPECT_NEAR(sum(weights_of_layer(dense, plan, false)),
              static_cast<double>(dense.attention_parameters() + dense.mlp_parameters(dense.ffn)) / 2, 1);
  EXPECT_NEAR(sum(weights_of_layer(moe, plan, true)),
              static_cast<double>(moe.attention_parameters()) / 2 + static_cast<double>(moe.router_parameters()) +
                  static_cast<double>(moe.experts * moe.expert_parameters()) / 4,
              1);
}

// Rows of bench/results/2026-11-26-h200-steps.csv and -steps-kept.csv: what PyTorch's allocator had allocated and
// reserved at most. Between both lie segments that the optimizer's state and gradients broke, up to 15.6 GiB.
TEST(Memory, ReservedBeyondAllocatedIsAsMeasuredOnAnH200) {
  const StepTable table =
      StepTable::parse(
          "t.csv",
          "id,model,layers,hidden,heads,kv_heads,ffn,vocab,tied,seq,gbs,mbs,gpus,gpu,precision,gradient_bytes,"
          "optimizer_bytes,tp,pp,dp,recompute,overlap,step_s,software,allocated,reserved\n"
          "G3,gpt2-xl,48,1600,25,25,6400,50257,1,1024,8,8,1,H200,bf16,2,4,1,1,1,none,eager,1,transformers "
          "2026.10,47.600,50.371\n"
          "G5,llama-3.2-1b,16,2048,32,8,8192,128256,1,8192,2,2,1,H200,bf16,2,4,1,1,1,none,eager,1,transformers "
          "2026.10,57.239,64.783\n"
          "G8,llama-3.2-3b,28,3072,24,8,8192,128256,1,4096,2,2,1,H200,bf16,2,4,1,1,1,none,eager,1,transformers "
          "2026.10,57.971,61.996\n"
          "G9,llama-3.2-3b,28,3072,24,8,8192,128256,1,4096,8,8,1,H200,bf16,2,4,1,1,1,full,eager,1,transformers "
          "2026.10,70.988,85.836\n"
          "G10,llama-3.1-8b,32,4096,32,8,14336,128256,0,4096,1,1,1,H200,bf16,2,4,1,1,1,none,eager,1,transformers "
          "2026.10,75.451,76.840\n"
          "G13,qwen2.5-7b,28,3584,28,4,18944,152064,0,4096,4,4,1,H200,bf16,2,4,1,1,1,full,eager,1,transformers "
          "2026.10,74.021,89.572\n"
          "G102,qwen3-1.7b,28,2048,16,8,6144,151936,1,2048,4,4,1,H200,bf16,2,4,1,1,1,none,eager,1,transformers "
          "2026.10,47.813,48.559\n"
          "G103,qwen3-1.7b,28,2048,16,8,6144,151936,1,8192,4,4,1,H200,bf16,2,4,1,1,1,full,eager,1,transformers "
          "2026.10,69.324,73.779\n")
          .value();
  const Card h200 = load_card("H200-SXM5", "bf16").value();
  for (const StepLine& line : table.lines()) {
    const Model m = model_of(table, line).value();
    const Plan plan = plan_of(table, line, 1).value();
    const double allocated = table.number(line, "allocated", 0).value(),
                 reserved = table.number(line, "reserved", 0).value();
    const StageMemory memory = peak_memory(m, plan, h200);
    EXPECT_NEAR(memory.allocated() / kGiB / allocated, 1, 0.012) << table.text(line, "id");
    EXPECT_NEAR(memory.fragmentation / kGiB, reserved - allocated, 1.6) << table.text(line, "id");
    EXPECT_NEAR(memory.reserved() / kGiB / reserved, 1, 0.03) << table.text(line, "id");
  }
}

TEST(Memory, PartsOfRandomPlansAreNeverNegativeAndSumToWhatIsReservedAndOutside) {
  std::mt19937 random(11);
  const auto pick = [&](std::initializer_list<std::int64_t> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
  };
  const std::vector<Model> models = {load_model("llama3-8b").value(), load_model("qwen3-30b-a3b").value(),
                                     load_model("gpt-oss-20b").value(), load_model("deepseek-v3").value()};
  const std::string_view frameworks[] = {"", "megatron-lm", "torchtitan", "transformers", "megatron-deepspeed"};
  int tried = 0;
  for (int i = 0; i < 400 && tried < 80; ++i) {
    const Model& m = models[random() % models.size()];
    Plan p{.tp = pick({1, 2, 4}), .pp = pick({1, 2, 4, 8}), .vp = pick({1, 1, 2, 3}), .cp = pick({1, 1, 2})};
    if (32 % (p.tp * p.pp * p.cp) != 0) continue;
    p.dp = 32 / (p.tp * p.pp * p.cp), p.ep = pick({1, 4, 8}), p.zero = pick({0, 1, 2, 3});
    p.micro_batch = pick({1, 2}), p.global_batch = 64, p.seq = 4096, p.lora = pick({0, 0, 16});
    p.recompute = static_cast<Recompute>(random() % 3), p.mtp = pick({0, 0, 1});
    p.recompute_share = p.recompute == Recompute::kFull && random() % 2 == 0 ? 0.5 : 1;
    p.schedule = p.vp == 1 && p.pp > 1 ? static_cast<Schedule>(random() % 3) : Schedule::k1F1B;
    p.expandable_segments = random() % 2 == 0, p.framework = frameworks[random() % std::size(frameworks)];
    if (!check_plan(m, p)) continue;
    ++tried;
    for (std::int64_t stage = 0; stage < p.pp; stage += std::max<std::int64_t>(1, p.pp - 1)) {
      const StageMemory s = memory_of_stage(m, p, h100(), stage);
      double all = 0;
      for (const double part :
           {s.parameters, s.gradients, s.optimizer, s.activations, s.logits, s.temporary, s.fragmentation, s.outside}) {
        EXPECT_GE(part, -1024.0) << m.name << ": " << describe(p);
        all += part;
      }
      EXPECT_NEAR(all, s.total(), 1) << describe(p);
      EXPECT_LE(s.allocated(), s.reserved() + 1024) << describe(p);
      EXPECT_GT(s.reserved(), s.parameters) << describe(p);
    }
  }
  EXPECT_GE(tried, 50);
}

// Full recomputation of a large vocabulary's model: state that is made in the first step breaks the segments of the
// logits, which need others in the second. Expandable segments grow by what the state took.
TEST(Memory, ExpandableSegmentsWasteLessThanSegmentsOfLogits) {
  const Model m = load_model("llama3-8b").value();
  Plan plan{.zero = 3, .micro_batch = 4, .global_batch = 32, .seq = 4096};
  plan.dp = 8, plan.framework = "torchtitan", plan.recompute = Recompute::kFull;
  const StageMemory segments = peak_memory(m, plan, h100());
  plan.expandable_segments = true;
  const StageMemory pages = peak_memory(m, plan, h100());
  EXPECT_NEAR(pages.allocated(), segments.allocated(), 1);
  EXPECT_GT(segments.fragmentation, 2 * kGiB);
  EXPECT_EQ(parse_allocator("expandable_segments:True").value(), true);
  EXPECT_EQ(parse_allocator("default").value(), false);
  EXPECT_FALSE(parse_allocator("native"));
}

// What is reserved beyond the card is given back as far as free segments allow, before a request fails.
TEST(Memory, ACardThatIsFullTakesCachedSegmentsBack) {
  const Model m = load_model("llama3-8b").value();
  Plan plan{.zero = 3, .micro_batch = 4, .global_batch = 32, .seq = 4096};
  plan.dp = 8, plan.framework = "torchtitan", plan.recompute = Recompute::kFull;
  Card card = h100();
  const StageMemory free = peak_memory(m, plan, card);
  EXPECT_EQ(free.retries, 0);
  card.memory = free.total() - free.fragmentation / 4;
  const StageMemory tight = peak_memory(m, plan, card);
  EXPECT_GT(tight.retries, 0);
  EXPECT_LE(tight.total(), card.memory);
  card.memory = free.allocated() / 2;  // nothing helps; said is what a card would have to have
  EXPECT_GE(peak_memory(m, plan, card).reserved(), free.allocated());
  EXPECT_EQ(fit(peak_memory(m, plan, card), card), Fit::kNo);
}

Card h100_in(const std::string& machine) {
  const auto view = cost::shipped_view(topology::load_machine(machine).value());
  Card card = h100();
  card.channels = channels_of(view.value());
  return card;
}

// NCCL's search finds 24 channels on a DGX H100, which it connects to a ring and, twice, along a tree; to every peer
// that something is sent to it connects 32 (nccl issue 1685), and 2 where a communicator crosses nodes.
TEST(Memory, CommunicatorsHoldABufferPerChannelAndPeerOutsideOfTheAllocator) {
  const Model m = load_model("qwen3-30b-a3b").value();
  Plan plan{.global_batch = 8, .seq = 4096};
  plan.framework = "fsdp";
  const Card card = h100_in("dgx-h100:nodes=2");
  ASSERT_TRUE(card.channels);
  EXPECT_EQ(card.channels->node, 8);
  EXPECT_EQ(card.channels->ring_near, 24);
  EXPECT_EQ(card.channels->peer_near, 32);
  EXPECT_EQ(card.channels->peer_far, 2);
  const auto beside = [&] { return outside_of_allocator(m, plan, card) - card.context; };
  EXPECT_NEAR(beside(), 0, 1);
  plan.dp = 8;  // eight GPUs of a node whose switches sum
  EXPECT_NEAR(beside(), 3 * 24 * card.connection + 8 * card.nvls, 1);
  plan.ep = 8;  // each expert has one replica
  EXPECT_NEAR(beside(), (3 * 24 + 7 * 32) * card.connection + 8 * card.nvls, 1);
  plan.dp = plan.ep = 16;
  const double across = beside();
  EXPECT_NEAR(across, (3 * card.channels->ring_far + 15 * 2) * card.connection + 8 * card.nvls, 1);
  plan.software = 2022;
  EXPECT_NEAR(beside() - across, card.context_before_2023 - card.context, 1);
}

// verl pull request 6408: on 8 H100 with TP 2, PP 2 and DP 2 Megatron's communicators hold 7 GB a rank of a dense
// model, 9.5 GB of one with experts.
TEST(Memory, MegatronsCommunicatorsHoldWhatSuspendingThemFrees) {
  Plan plan{.tp = 2, .pp = 2, .dp = 2, .global_batch = 8, .seq = 4096};
  plan.framework = "megatron-lm";
  const Card card = h100_in("dgx-h100");
  const auto held = [&](const char* model) {
    return (outside_of_allocator(load_model(model).value(), plan, card) - card.context) * 1e-9;
  };
  EXPECT_NEAR(held("llama3-8b"), 7, 0.7);
  plan.ep = 2;
  EXPECT_NEAR(held("qwen3-30b-a3b"), 9.5, 0.95);
}

// DeepEP's pull request 434: Config(24, 8, 512, 16, 128) for 7,168 bytes a token on 16 ranks wants 453,380,736 and
// 56,774,016 bytes: 12 channels of 8 peers of 512 tokens, and 12 of 2 nodes of 128 tokens. Here: 10 channels, 288
// tokens and twice the bytes of a token; 10 * 8 * (288 * 16,392 + 28) and 10 * 2 * (256 * 16,408 + 144), with a
// workspace of 32 MiB.
TEST(Memory, DeepEpsBuffersAreThoseOfItsConfiguration) {
  EXPECT_EQ(deepep_buffers(16, 7168), 80.0 * (288 * 16392 + 28) + 20.0 * (256 * 16408 + 144) + (32 << 20));
  EXPECT_EQ(deepep_buffers(8, 2048), 80.0 * (256 * 6152 + 20) + (32 << 20));
  const Model m = load_model("qwen3-30b-a3b").value();
  Plan plan{.dp = 8, .ep = 8, .global_batch = 8, .seq = 4096};
  const Card card = h100_in("dgx-h100");
  const double by_nccl = outside_of_allocator(m, plan, card);
  plan.dispatcher = Dispatcher::kDeepEp;
  EXPECT_NEAR(by_nccl - outside_of_allocator(m, plan, card), 7 * 32 * card.connection - deepep_buffers(8, 2048), 1);
  EXPECT_TRUE(uncounted_memory(plan, card).empty());
  plan.dispatcher = Dispatcher::kHybridEp;
  EXPECT_EQ(uncounted_memory(plan, card), std::vector<std::string>{"HybridEP's buffers"});
}

// Where NCCL does not run, or no machine is known, one figure stands for all communicators.
TEST(Memory, CommunicatorsThatNcclDoesNotFindAreAssumed) {
  const Model m = load_model("llama3-8b").value();
  const Plan plan{.dp = 8, .global_batch = 8, .seq = 4096};
  const Card card = h100_in("mi300x");
  EXPECT_FALSE(card.channels);
  EXPECT_EQ(outside_of_allocator(m, plan, card), card.reserved);
  EXPECT_EQ(uncounted_memory(plan, card).size(), 1u);
}

}  // namespace
}  // namespace weft::training
