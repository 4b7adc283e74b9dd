#include "apps/training/memory.h"

#include <algorithm>
#include <functional>

#include "apps/training/layout.h"

namespace weft::training {
namespace {

double d(std::int64_t n) { return static_cast<double>(n); }

// Layers of a stage with and without experts.
struct Layers {
  std::int64_t dense = 0, moe = 0;
};
Layers layers_on(const Model& model, const Plan& plan, std::int64_t stage) {
  Layers layers;
  for (const Chunk& chunk : chunks_of(model, plan))
    if (chunk.stage == stage)
      for (std::int64_t i = 0; i < chunk.layers; ++i) ++(model.moe_layer(chunk.first + i) ? layers.moe : layers.dense);
  // A layer of multi-token prediction is as the model's last.
  if (stage == plan.pp - 1) (model.moe_layer(model.layers - 1) ? layers.moe : layers.dense) += plan.mtp;
  return layers;
}

// Bytes per token that a layer keeps for its backward pass, on one GPU. 34 s b h + 5 a s² b of arXiv 2205.05198 where
// the layer is GPT's and dropout is used; fused attention keeps no scores and newer models have no dropout.
double activation_bytes_of_layer(const Model& m, const Plan& plan, bool moe) {
  const double h = d(m.hidden), q = d(m.query_width()), kv = m.mla() ? q + d(m.value_width()) : 2.0 * d(m.kv_width());
  const double tp = d(plan.tp), spread = plan.sequence_parallel ? tp : 1;
  if (plan.recompute == Recompute::kFull) return 2 * h / spread;
  const bool dropout = !plan.flash_attention(), eager = plan.composes_layers();
  // norms' and GEMMs' inputs, masks
  double whole = m.blocks * (2 * h + 2 * h + 2 * h + 2 * h + (dropout ? 2 * h : 0));
  // RMSNorm by operations: the input in FP32, what it becomes before the weight, and after it; LayerNorm is one kernel.
  if (eager) whole = m.blocks * (m.gated ? 8 * h + 8 * h : 4 * h + 4 * h + (m.composed_gelu ? 2 * h : 0));
  double split = (2 * (q + kv) + 2 * d(m.value_width())) * m.projection_share();
  if (eager && m.head_norms) split += 6 * (q + d(m.kv_width())) * m.projection_share();
  // Kernels of their own keep what fused ones compute again: SiLU's result; of GPT-2's GELU half its input, tanh and
  // the sum that it multiplies with.
  const auto mlp = [&](double width) {
    if (m.gated) return (eager ? 8 : 6) * width;
    return (eager && m.composed_gelu ? 10 : 4) * width;
  };
  double experts = 0;
  if (moe) {
    split += mlp(d(m.shared_ffn));
    experts = d(m.top_k) * (mlp(d(m.moe_ffn)) + 4 * h);
  } else {
    split += mlp(d(m.ffn));
  }
  // PyTorch's selective checkpointing keeps the layer's input, attention's result, and the output of every second GEMM
  // (torchtitan, _apply_ac_to_transformer_block).
  if (plan.recompute == Recompute::kSelective && plan.framework == "torchtitan" && !moe)
    return 2 * h / spread + 2 * d(m.value_width()) / tp +
           (q + 2 * d(m.kv_width()) + h + (m.gated ? 2 : 1) * d(m.ffn) + h) / tp;
  // Scores: softmax's result, its dropout's mask and result: 5 bytes per head and key.
  if (dropout && plan.recompute == Recompute::kNone) split += 5 * d(m.heads) * d(plan.seq);
  if (plan.recompute == Recompute::kSelective && !dropout) split -= mlp(d(moe ? 0 : m.ffn)) / 2;
  return whole / spread + split / tp + experts;
}

double activation_bytes(const Model& m, const Plan& plan, bool moe) {
  const double with = activation_bytes_of_layer(m, plan, moe);
  if (plan.recompute_share >= 1) return with;
  Plan kept = plan;
  kept.recompute = Recompute::kNone;
  return plan.recompute_share * with + (1 - plan.recompute_share) * activation_bytes_of_layer(m, kept, moe);
}

}  // namespace

namespace {

// `trained`: only what has gradients.
StageParameters count(const Model& m, const Plan& plan, std::int64_t stage, bool trained) {
  const Layers layers = layers_on(m, plan, stage);
  const double tp = d(plan.tp), all = d(layers.dense + layers.moe);
  const bool lora = trained && plan.lora > 0;
  const auto share = [&](bool frozen) { return trained && frozen ? 0.0 : 1.0; };
  const Frozen& f = plan.frozen;
  StageParameters p;
  if (lora) {
    // Adapters beside the matrices of attention and of dense MLPs: rank × (input + output width).
    const double h = d(m.hidden), rank = d(plan.lora);
    const double attention = 2 * h + d(m.query_width()) + 2 * d(m.kv_width()) + d(m.value_width());
    const double width = d(m.ffn), mlp = width > 0 ? 2 * h + (m.gated ? 3 : 2) * width : 0;
    p.dense = rank * (all * attention + d(layers.dense) * mlp) / tp;
    return p;
  }
  p.dense = all * d(m.attention_parameters()) / tp * share(f.attention) +
            d(layers.dense) * d(m.mlp_parameters(m.ffn)) / tp * share(f.mlp) +
            d(layers.moe) *
                (d(m.mlp_parameters(m.shared_ffn)) / tp * share(f.mlp) + d(m.router_parameters()) * share(f.experts));
  if (stage == plan.pp - 1) p.dense += d(plan.mtp) * 2 * d(m.hidden) * d(m.hidden) / tp;
  if (stage == 0) p.dense += d(m.embedding_parameters()) / tp * share(f.embedding);
  if (stage == plan.pp - 1)
    p.dense += d(m.tied && plan.pp > 1 ? m.vocab * m.hidden : m.output_parameters()) / tp * share(f.output);
  p.expert = d(layers.moe) * d(m.experts) * d(m.expert_parameters()) / d(plan.ep * plan.etp) * share(f.experts);
  return p;
}

}  // namespace

StageParameters parameters_of_stage(const Model& m, const Plan& plan, std::int64_t stage) {
  return count(m, plan, stage, false);
}

StageParameters trained_of_stage(const Model& m, const Plan& plan, std::int64_t stage) {
  return count(m, plan, stage, true);
}

StageMemory memory_of_stage(const Model& m, const Plan& plan, const Card& card, std::int64_t stage) {
  const StageParameters own = parameters_of_stage(m, plan, stage), trained = trained_of_stage(m, plan, stage);
  const double replicas = d(plan.sharded());
  const double expert_replicas = std::max(1.0, d(plan.expert_replicas() * plan.sharded()) / d(plan.replicas()));
  const auto spread = [&](const StageParameters& of, double bytes, int from) {
    return bytes * (plan.zero >= from ? of.dense / replicas + of.expert / expert_replicas : of.dense + of.expert);
  };
  StageMemory memory;
  memory.parameters = plan.zero == 3 && !plan.gathers_per_pass() ? spread(own, 2, 4) : spread(own, 2, 3);
  memory.gradients = spread(trained, plan.gradient_bytes + plan.more_gradient_bytes,
                            plan.zero == 3 && !plan.gathers_per_pass() ? 4 : 2);
  // What has not travelled yet is kept for the next step, in the type of the gradients.
  if (plan.compression.keeps_error()) memory.gradients += spread(trained, plan.gradient_bytes, 4);
  memory.optimizer = spread(trained, plan.optimizer_bytes, 1);
  const Layers layers = layers_on(m, plan, stage);
  const double tokens = d(plan.micro_batch * plan.seq) / d(plan.cp);
  // Micro-batches whose activations are held at once.
  double held = d(std::min(plan.micro_batches(), plan.pp - stage));
  if (plan.schedule == Schedule::kZeroBubble) held = d(std::min(plan.micro_batches(), plan.pp));
  if (plan.schedule == Schedule::kZeroBubble2) held = d(std::min(plan.micro_batches(), 2 * plan.pp));
  if (plan.vp > 1)
    held = std::min(d(plan.micro_batches()), d((plan.pp - stage - 1) * 2 + (plan.vp - 1) * plan.pp + 1) / d(plan.vp));
  if (plan.overlap_experts != 0) held += 1;  // the micro-batch whose pass goes beside
  Plan kept = plan;
  memory.activations =
      held * tokens *
      (d(layers.dense) * activation_bytes(m, plan, false) + d(layers.moe) * activation_bytes(m, plan, true));
  if (plan.recompute == Recompute::kFull) {
    kept.recompute = Recompute::kNone;  // one layer at a time is there in full
    memory.activations += tokens * activation_bytes(m, kept, layers.moe > 0);
  }
  if (stage == 0) memory.activations += held * tokens * 2 * d(m.hidden) / (plan.sequence_parallel ? d(plan.tp) : 1);
  // BF16, and FP32 that its gradient replaces; PyTorch's cross entropy keeps the gradient of both beside.
  const bool eager = plan.composes_layers();
  if (stage == plan.pp - 1)
    memory.logits =
        tokens * d(m.vocab) / d(plan.tp) * (1 + d(plan.mtp)) * (eager || plan.framework == "torchtitan" ? 12 : 6);
  // Gradients of one pass that nobody sums up come into being where activations and logits have been.
  if (plan.transformers() && plan.ranks() == 1 && plan.micro_batches() == 1)
    memory.gradients = std::max(0.0, memory.gradients - memory.activations - memory.logits);
  if (plan.gathers_per_pass())
    memory.parameters += 2 * 2 * (own.dense + own.expert) / std::max(1.0, d(layers.dense + layers.moe));
  memory.other = card.reserved + card.fragmentation * (memory.activations + memory.logits);
  return memory;
}

Fit fit(const StageMemory& memory, const Card& card) {
  const double total = memory.total();
  if (total <= card.memory * (1 - kMemoryMargin)) return Fit::kCertain;
  return total <= card.memory * (1 + kMemoryMargin) ? Fit::kTight : Fit::kNo;
}

std::string_view name(Fit fit) { return fit == Fit::kCertain ? "certain" : fit == Fit::kTight ? "tight" : "no"; }

StageMemory peak_memory(const Model& model, const Plan& plan, const Card& card) {
  StageMemory peak;
  for (std::int64_t s = 0; s < plan.pp; ++s) {
    const StageMemory memory = memory_of_stage(model, plan, card, s);
    if (memory.total() > peak.total()) peak = memory;
  }
  return peak;
}

std::string what_would_fit(const Model& model, const Plan& plan, const Card& card) {
  const std::pair<const char*, std::function<bool(Plan&)>> changes[] = {
      {"--zero 1", [](Plan& p) { return std::exchange(p.zero, std::max<std::int64_t>(p.zero, 1)) < 1; }},
      {"--recompute selective",
       [](Plan& p) { return std::exchange(p.recompute, Recompute::kSelective) == Recompute::kNone; }},
      {"--micro-batch 1", [](Plan& p) { return std::exchange(p.micro_batch, 1) > 1; }},
      {"--recompute full", [](Plan& p) { return std::exchange(p.recompute, Recompute::kFull) != Recompute::kFull; }},
      {"twice the --tp", [](Plan& p) { return p.tp *= 2, p.dp % 2 == 0 ? (p.dp /= 2, true) : false; }},
      {"twice the --pp", [](Plan& p) { return p.pp *= 2, p.dp % 2 == 0 ? (p.dp /= 2, true) : false; }},
      {"--zero 3", [](Plan& p) { return p.pp == 1 && std::exchange(p.zero, 3) < 3; }},
  };
  const auto serves = [&](const Plan& p) {
    return check_plan(model, p).has_value() && fits(peak_memory(model, p, card), card);
  };
  for (const auto& [words, change] : changes)
    if (Plan p = plan; change(p) && serves(p)) return words;
  for (const auto& [words, change] : changes)
    for (const auto& [more, second] : changes)
      if (Plan p = plan; words != more && change(p) && second(p) && serves(p))
        return fmt::format("{} with {}", words, more);
  return "";
}

}  // namespace weft::training
