#include "apps/training/memory.h"

#include <algorithm>
#include <functional>

namespace weft::training {
namespace {

double d(std::int64_t n) { return static_cast<double>(n); }

// Layers of a stage with and without experts.
struct Layers {
  std::int64_t dense = 0, moe = 0;
};
Layers layers_on(const Model& model, const Plan& plan, std::int64_t stage) {
  Layers layers;
  const std::int64_t chunk = model.layers / (plan.pp * plan.vp);
  std::int64_t first = 0;
  for (std::int64_t s = 0; s < stage; ++s) first += layers_of_stage(model, plan, s);
  for (std::int64_t i = 0; i < layers_of_stage(model, plan, stage); ++i) {
    const std::int64_t layer = plan.vp == 1 ? first + i : (i / chunk * plan.pp + stage) * chunk + i % chunk;
    ++(model.moe_layer(layer) ? layers.moe : layers.dense);
  }
  return layers;
}

// Bytes per token that a layer keeps for its backward pass, on one GPU. 34 s b h + 5 a s² b of arXiv 2205.05198 where
// the layer is GPT's and dropout is used; fused attention keeps no scores and newer models have no dropout.
double activation_bytes(const Model& m, const Plan& plan, bool moe) {
  const double h = d(m.hidden), q = d(m.query_width()), kv = m.mla() ? q + d(m.value_width()) : 2.0 * d(m.kv_width());
  const double tp = d(plan.tp), spread = plan.sequence_parallel ? tp : 1;
  if (plan.recompute == Recompute::kFull) return 2 * h / spread;
  const bool dropout = !plan.flash_attention();
  const double whole = 2 * h + 2 * h + 2 * h + 2 * h + (dropout ? 2 * h : 0);  // norms' and GEMMs' inputs, masks
  double split = 2 * (q + kv) + 2 * d(m.value_width());
  const auto mlp = [&](double width) { return m.gated ? 6 * width : 4 * width; };
  double experts = 0;
  if (moe) {
    split += mlp(d(m.shared_ffn));
    experts = d(m.top_k) * (mlp(d(m.moe_ffn)) + 4 * h);
  } else {
    split += mlp(d(m.ffn));
  }
  // Scores: softmax's result, its dropout's mask and result: 5 bytes per head and key.
  if (dropout && plan.recompute == Recompute::kNone) split += 5 * d(m.heads) * d(plan.seq);
  if (plan.recompute == Recompute::kSelective && !dropout) split -= mlp(d(moe ? 0 : m.ffn)) / 2;
  return whole / spread + split / tp + experts;
}

}  // namespace

StageParameters parameters_of_stage(const Model& m, const Plan& plan, std::int64_t stage) {
  const Layers layers = layers_on(m, plan, stage);
  const double tp = d(plan.tp);
  StageParameters p;
  p.dense = d(layers.dense + layers.moe) * d(m.attention_parameters()) / tp +
            d(layers.dense) * d(m.mlp_parameters(m.ffn)) / tp +
            d(layers.moe) * (d(m.mlp_parameters(m.shared_ffn)) / tp + d(m.router_parameters()));
  if (stage == 0) p.dense += d(m.embedding_parameters()) / tp;
  if (stage == plan.pp - 1) p.dense += d(m.tied && plan.pp > 1 ? m.vocab * m.hidden : m.output_parameters()) / tp;
  p.expert = d(layers.moe) * d(m.experts) * d(m.expert_parameters()) / d(plan.ep);
  return p;
}

StageMemory memory_of_stage(const Model& m, const Plan& plan, const Card& card, std::int64_t stage) {
  const StageParameters own = parameters_of_stage(m, plan, stage);
  const double replicas = d(plan.dp * plan.cp);
  const double expert_replicas = std::max(1.0, d(plan.dp * plan.cp * plan.tp) / d(plan.ep));
  const auto spread = [&](double bytes, int from) {
    return bytes * (plan.zero >= from ? own.dense / replicas + own.expert / expert_replicas : own.dense + own.expert);
  };
  StageMemory memory;
  memory.parameters = spread(2, 3);
  memory.gradients = spread(plan.gradient_bytes, 2);
  memory.optimizer = spread(plan.optimizer_bytes, 1);
  const Layers layers = layers_on(m, plan, stage);
  const double tokens = d(plan.micro_batch * plan.seq) / d(plan.cp);
  // Micro-batches whose activations are held at once.
  double held = d(std::min(plan.micro_batches(), plan.pp - stage));
  if (plan.schedule == Schedule::kZeroBubble) held = d(std::min(plan.micro_batches(), plan.pp));
  if (plan.schedule == Schedule::kZeroBubble2) held = d(std::min(plan.micro_batches(), 2 * plan.pp));
  if (plan.vp > 1)
    held = std::min(d(plan.micro_batches()), d((plan.pp - stage - 1) * 2 + (plan.vp - 1) * plan.pp + 1) / d(plan.vp));
  Plan kept = plan;
  memory.activations =
      held * tokens *
      (d(layers.dense) * activation_bytes(m, plan, false) + d(layers.moe) * activation_bytes(m, plan, true));
  if (plan.recompute == Recompute::kFull) {
    kept.recompute = Recompute::kNone;  // one layer at a time is there in full
    memory.activations += tokens * activation_bytes(m, kept, layers.moe > 0);
  }
  if (stage == 0) memory.activations += held * tokens * 2 * d(m.hidden) / (plan.sequence_parallel ? d(plan.tp) : 1);
  if (stage == plan.pp - 1)
    memory.logits = tokens * d(m.vocab) / d(plan.tp) * (2 + 4);  // BF16, and FP32 that its gradient replaces
  if (plan.zero == 3)
    memory.parameters += 2 * 2 * (own.dense + own.expert) / std::max(1.0, d(layers.dense + layers.moe));
  memory.other = card.reserved + card.fragmentation * (memory.activations + memory.logits);
  return memory;
}

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
