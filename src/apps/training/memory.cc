#include "apps/training/memory.h"

#include <algorithm>
#include <functional>

#include "apps/training/allocations.h"
#include "apps/training/outside.h"
#include "apps/training/tensors.h"
#include "base/text.h"

namespace weft::training {
namespace {

double d(std::int64_t n) { return static_cast<double>(n); }

// `trained`: only what has gradients.
StageParameters count(const Model& m, const Plan& plan, std::int64_t stage, bool trained) {
  const StageLayers layers = layers_on(m, plan, stage);
  const double tp = d(plan.tp), all = d(layers.all());
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

namespace {

// Passes of chunks whose activations a stage holds at once, for all micro-batches and chunks alike.
std::int64_t held_passes(const Plan& plan, std::int64_t stage) {
  std::int64_t held = plan.vp > 1 ? (plan.pp - stage - 1) * 2 + (plan.vp - 1) * plan.pp + 1 : plan.pp - stage;
  if (plan.schedule == Schedule::kZeroBubble) held = plan.pp;
  if (plan.schedule == Schedule::kZeroBubble2) held = 2 * plan.pp;
  held = std::min(held, plan.micro_batches() * plan.vp);
  return held + (plan.overlap_experts != 0 ? plan.vp : 0);  // the micro-batch whose pass goes beside
}

// What tensors hold by part, as far as counts of parameters, layers and tokens say.
StageMemory tensors_of_stage(const Model& m, const Plan& plan, std::int64_t stage) {
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
  const StageLayers layers = layers_on(m, plan, stage);
  const double tokens = d(plan.micro_batch * plan.seq) / d(plan.cp);
  const double held = d(held_passes(plan, stage)) / d(plan.vp);
  memory.activations =
      held * tokens *
      (d(layers.dense) * activation_bytes(m, plan, false) + d(layers.moe) * activation_bytes(m, plan, true));
  if (plan.recompute == Recompute::kFull) {
    Plan kept = plan;
    kept.recompute = Recompute::kNone;  // one layer at a time is there in full
    memory.activations += tokens * activation_bytes(m, kept, layers.moe > 0);
  }
  if (stage == 0) memory.activations += held * tokens * 2 * d(m.hidden) / (plan.sequence_parallel ? d(plan.tp) : 1);
  // BF16, and FP32 that its gradient replaces; PyTorch's cross entropy keeps the gradient of both beside.
  if (stage == plan.pp - 1)
    memory.logits = tokens * d(m.vocab) / d(plan.tp) * (1 + d(plan.mtp)) *
                    (plan.composes_layers() || plan.framework == "torchtitan" ? 12 : 6);
  if (plan.gathers_per_pass())
    memory.parameters += 2 * 2 * (own.dense + own.expert) / std::max<double>(1.0, d(layers.all()));
  return memory;
}

// What the allocator makes of them: needs of a moment, and segments that it holds beyond.
void allocate(const Model& m, const Plan& plan, const Card& card, std::int64_t stage, StageMemory& memory) {
  AllocatorSettings settings{.expandable = plan.expandable_segments};
  const auto run = [&] { return allocate_steps(m, plan, stage, memory, held_passes(plan, stage), settings); };
  Held held = run();
  // A device that is full takes cached segments back. What it needs is the least capacity, of these, that suffices.
  const double room = card.memory - memory.outside, wanted = held.reserved;
  for (const double share : {1.0, 1.02, 1.05, 1.1}) {
    const double capacity = share * std::max(room, held.requested);
    if (wanted <= capacity) break;
    settings.capacity = static_cast<std::int64_t>(capacity);
    if (const Held tight = run(); !tight.out_of_memory) {
      held = tight;
      break;
    }
  }
  memory.retries = held.retries;
  memory.fragmentation = held.reserved - held.requested;
  memory.temporary = held.requested - memory.tensors();
  // Gradients that the backward pass makes are not there at the peak; of other plans the layer that is computed again
  // is gone when the logits come.
  const bool made = plan.gathers_per_pass() || plan.transformers();
  for (double* part : {made ? &memory.gradients : &memory.activations, &memory.activations, &memory.logits}) {
    const double less = std::clamp(-memory.temporary, 0.0, *part);
    *part -= less, memory.temporary += less;
  }
}

}  // namespace

StageMemory memory_of_stage(const Model& m, const Plan& plan, const Card& card, std::int64_t stage) {
  StageMemory memory = tensors_of_stage(m, plan, stage);
  memory.outside = outside_of_allocator(m, plan, card);
  allocate(m, plan, card, stage, memory);
  return memory;
}

Result<MemoryOf> parse_memory_of(std::string_view text) {
  if (text == "allocated") return MemoryOf::kAllocated;
  if (text == "reserved") return MemoryOf::kReserved;
  if (text == "device") return MemoryOf::kDevice;
  return bad_input("mem_of '{}' is none of allocated, reserved, device", shown(text));
}

double bytes_of(const StageMemory& memory, MemoryOf of) {
  return of == MemoryOf::kAllocated  ? memory.allocated()
         : of == MemoryOf::kReserved ? memory.reserved()
                                     : memory.total();
}

Fit fit(const StageMemory& memory, const Card& card) {
  const double total = memory.total();
  if (total <= card.memory * (1 - kMemoryMargin)) return Fit::kCertain;
  return total <= card.memory * (1 + kMemoryMargin) ? Fit::kTight : Fit::kNo;
}

std::string_view name(Fit fit) { return fit == Fit::kCertain ? "certain" : fit == Fit::kTight ? "tight" : "no"; }

StageMemory peak_memory(const Model& model, const Plan& plan, const Card& card, bool to_judge) {
  std::int64_t most = 0;
  StageMemory memory;
  for (std::int64_t s = 0; s < plan.pp; ++s)
    if (const StageMemory of = tensors_of_stage(model, plan, s); of.tensors() > memory.tensors()) most = s, memory = of;
  memory.outside = outside_of_allocator(model, plan, card);
  const double least = memory.parameters + memory.optimizer + memory.outside;
  return to_judge && least > card.memory * (1 + kMemoryMargin) ? memory : memory_of_stage(model, plan, card, most);
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
    return check_plan(model, p).has_value() && fits(peak_memory(model, p, card, true), card);
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
