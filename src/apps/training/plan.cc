#include "apps/training/plan.h"

#include "apps/training/layout.h"
#include "base/counted.h"
#include "base/text.h"

namespace weft::training {

std::string_view name(Recompute recompute) {
  return recompute == Recompute::kFull ? "full" : recompute == Recompute::kSelective ? "selective" : "none";
}

Result<Recompute> parse_recompute(std::string_view text) {
  for (const Recompute r : {Recompute::kNone, Recompute::kSelective, Recompute::kFull})
    if (name(r) == text) return r;
  return bad_input("--recompute {}: none, selective or full", text);
}

std::string_view name(Schedule schedule) {
  return schedule == Schedule::k1F1B ? "1f1b" : schedule == Schedule::kZeroBubble ? "zb-1p" : "zb-2p";
}

Result<Schedule> parse_schedule(std::string_view text) {
  for (const Schedule s : {Schedule::k1F1B, Schedule::kZeroBubble, Schedule::kZeroBubble2})
    if (name(s) == text) return s;
  return bad_input("--schedule {}: 1f1b, zb-1p or zb-2p", text);
}

std::string_view name(ContextBy by) {
  return by == ContextBy::kRing ? "ring" : by == ContextBy::kAllGather ? "all_gather" : "all_to_all";
}

Result<ContextBy> parse_context_by(std::string_view text) {
  for (const ContextBy by : {ContextBy::kRing, ContextBy::kAllGather, ContextBy::kAllToAll})
    if (name(by) == text) return by;
  return bad_input("--cp-by {}: ring, all_gather or all_to_all", shown(text));
}

std::string_view name(Dispatcher dispatcher) {
  return dispatcher == Dispatcher::kAllToAll ? "alltoall" : dispatcher == Dispatcher::kDeepEp ? "deepep" : "hybridep";
}

Result<Dispatcher> parse_dispatcher(std::string_view text) {
  for (const Dispatcher d : {Dispatcher::kAllToAll, Dispatcher::kDeepEp, Dispatcher::kHybridEp})
    if (name(d) == text) return d;
  return bad_input("--dispatcher {}: alltoall, deepep or hybridep", shown(text));
}

Result<bool> parse_allocator(std::string_view text) {
  if (text == "default" || text == "expandable_segments:False") return false;
  if (text == "expandable" || text == "expandable_segments:True") return true;
  return bad_input("--allocator {}: default or expandable", shown(text));
}

std::string_view name(Optimizer optimizer) { return optimizer == Optimizer::kAdam ? "adam" : "muon"; }

Result<Optimizer> parse_optimizer(std::string_view text) {
  for (const Optimizer o : {Optimizer::kAdam, Optimizer::kMuon})
    if (name(o) == text) return o;
  return bad_input("--optimizer {}: adam or muon", shown(text));
}

namespace {

constexpr std::pair<std::string_view, bool Frozen::*> kFreezable[] = {{"embedding", &Frozen::embedding},
                                                                      {"attention", &Frozen::attention},
                                                                      {"mlp", &Frozen::mlp},
                                                                      {"experts", &Frozen::experts},
                                                                      {"output", &Frozen::output}};

}  // namespace

Result<Frozen> parse_frozen(std::string_view text) {
  Frozen frozen;
  if (text.empty() || text == "none") return frozen;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view word = text.substr(at, comma - at);
    bool known = false;
    for (const auto& [part, field] : kFreezable)
      if (word == part || word == "all") known = frozen.*field = true;
    if (!known)
      return bad_input("--freeze {}: '{}' is none of embedding, attention, mlp, experts, output, all", shown(text),
                       shown(word));
    at = comma + 1;
  }
  return frozen;
}

std::string name(const Frozen& frozen) {
  std::string text;
  for (const auto& [part, field] : kFreezable)
    if (frozen.*field) text += fmt::format("{}{}", text.empty() ? "" : "+", part);
  return text.empty() ? "none" : text;
}

std::string describe(const Plan& plan) {
  std::string text;
  const auto add = [&](const char* what, std::int64_t size) {
    if (size > 1) text += fmt::format("{} {}, ", what, size);
  };
  add("tp", plan.tp);
  add("pp", plan.pp);
  add("vp", plan.vp);
  add("cp", plan.cp);
  add("ep", plan.ep);
  add("etp", plan.etp);
  add("dp", plan.dp);
  text += fmt::format("ZeRO {}", plan.zero);
  if (plan.shard > 0 && plan.zero > 0) text += fmt::format(" over {}", plan.shard);
  text += fmt::format(", micro-batch {}, recompute {}", plan.micro_batch, name(plan.recompute));
  if (plan.recompute_share < 1) text += fmt::format(" of {:.0f} % of the layers", 100 * plan.recompute_share);
  if (!plan.layout.empty()) text += ", own layout";
  if (plan.first_layers >= 0) text += fmt::format(", first stage {}", counted(plan.first_layers, "layer"));
  if (plan.last_layers >= 0) text += fmt::format(", last stage {}", counted(plan.last_layers, "layer"));
  if (plan.expandable_segments) text += ", expandable segments";
  if (plan.mtp > 0) text += fmt::format(", mtp {}", plan.mtp);
  if (plan.lora > 0) text += fmt::format(", LoRA {}", plan.lora);
  if (plan.frozen.any()) text += fmt::format(", {} frozen", name(plan.frozen));
  if (plan.optimizer != Optimizer::kAdam) text += fmt::format(", {}", name(plan.optimizer));
  if (plan.cp > 1 && plan.context_by != ContextBy::kRing) text += fmt::format(", cp by {}", name(plan.context_by));
  if (plan.ep > 1 && plan.dispatcher != Dispatcher::kAllToAll) text += fmt::format(", {}", name(plan.dispatcher));
  if (plan.overlap_experts != 0) text += ", experts' tokens beside another micro-batch";
  if (plan.bucket > 0) text += fmt::format(", bucket {} MiB", plan.bucket);
  if (plan.compression.any()) text += fmt::format(", gradients by {}", name(plan.compression));
  if (plan.overlap == 0) text += ", no overlap";
  if (plan.runs_eagerly()) text += ", eager";
  if (plan.launch == kernels::Launch::kBlocking) text += ", blocking launches";
  if (plan.launch == kernels::Launch::kGraphs) text += ", CUDA graphs";
  if (plan.schedule != Schedule::k1F1B) text += fmt::format(", {}", name(plan.schedule));
  return text;
}

Status check_plan(const Model& model, const Plan& plan) {
  for (const auto& [what, size] : {std::pair{"--tp", plan.tp},
                                   {"--pp", plan.pp},
                                   {"--vp", plan.vp},
                                   {"--dp", plan.dp},
                                   {"--ep", plan.ep},
                                   {"--cp", plan.cp},
                                   {"--etp", plan.etp},
                                   {"--micro-batch", plan.micro_batch},
                                   {"--global-batch", plan.global_batch},
                                   {"--seq", plan.seq}})
    if (size < 1 || size > (std::int64_t{1} << 31))
      return bad_input("{} {}: 1 to {}", what, size, std::int64_t{1} << 31);
  for (const auto& [what, size] : {std::pair{"--shard", plan.shard}, {"--mtp", plan.mtp}, {"--lora", plan.lora}})
    if (size < 0 || size > (std::int64_t{1} << 20)) return bad_input("{} {}: 0 (none) to {}", what, size, 1 << 20);
  if (plan.lora > model.hidden)
    return bad_input("--lora {}: {} has a hidden size of {}, which the rank of an adapter does not exceed", plan.lora,
                     model.name, model.hidden);
  if (plan.software < 2017 || plan.software > 2100)
    return bad_input("--software {}: a year from 2017 (the transformer's) on", plan.software);
  if (plan.bucket < 0 || plan.bucket > (std::int64_t{1} << 20))
    return bad_input("--bucket {}: 0 (the framework's default) to 1048576 MiB", plan.bucket);
  if (plan.overlap != 0 && plan.overlap != 1) return bad_input("--overlap {}: 0 or 1", plan.overlap);
  if (plan.overlap_experts != 0 && plan.overlap_experts != 1)
    return bad_input("--overlap-experts {}: 0 or 1", plan.overlap_experts);
  if (plan.overlap_experts == 1 && (plan.ep == 1 || plan.micro_batches() < 2))
    return bad_input("--overlap-experts 1 needs --ep of at least 2, and two micro-batches; here --ep {}, {} of them",
                     plan.ep, plan.micro_batches());
  if (plan.eager < -1 || plan.eager > 1) return bad_input("--eager {}: 0 or 1", plan.eager);
  if (plan.compression.any() && plan.zero > 0)
    return bad_input("--compress {} needs --zero 0: DDP's hooks compress gradients that every replica keeps",
                     name(plan.compression));
  if ((plan.compression.kind == Compression::Kind::kHalf || plan.compression.kind == Compression::Kind::kBf16) &&
      plan.gradient_bytes == 2)
    return bad_input("--compress {}: gradients have 2 bytes already (--gradient-bytes)", name(plan.compression));
  if (!(plan.recompute_share > 0 && plan.recompute_share <= 1))
    return bad_input("--recompute-share {}: a share above 0 and up to 1", plan.recompute_share);
  if (plan.zero < 0 || plan.zero > 3) return bad_input("--zero {}: 0, 1, 2 or 3", plan.zero);
  if (model.heads % plan.tp != 0)
    return bad_input("--tp {} does not divide {} heads of {}", plan.tp, model.heads, model.name);
  WEFT_CHECK(check_layout(model, plan));
  if (plan.vp > 1 && plan.pp == 1) return bad_input("--vp {} needs --pp of at least 2", plan.vp);
  if (plan.global_batch % (plan.dp * plan.micro_batch) != 0)
    return bad_input("--global-batch {} is no multiple of dp {} times --micro-batch {}", plan.global_batch, plan.dp,
                     plan.micro_batch);
  if (plan.vp > 1 && plan.micro_batches() % plan.pp != 0)
    return bad_input("--vp {}: {} micro-batches are no multiple of --pp {}", plan.vp, plan.micro_batches(), plan.pp);
  if (plan.seq % (plan.cp * (plan.sequence_parallel ? plan.tp : 1)) != 0)
    return bad_input("--seq {} is no multiple of cp {} times tp {}", plan.seq, plan.cp, plan.tp);
  if (plan.ep > 1 && !model.moe()) return bad_input("--ep {}: {} has no experts", plan.ep, model.name);
  if (model.moe() && model.experts % plan.ep != 0)
    return bad_input("--ep {} does not divide {} of {}", plan.ep, counted(model.experts, "expert"), model.name);
  if (plan.etp > 1 && !model.moe()) return bad_input("--etp {}: {} has no experts", plan.etp, model.name);
  if ((plan.dp * plan.cp * plan.tp) % (plan.ep * plan.etp) != 0)
    return bad_input("--ep {}{} does not divide the {} of a stage", plan.ep,
                     plan.etp > 1 ? fmt::format(" times --etp {}", plan.etp) : "",
                     counted(plan.dp * plan.cp * plan.tp, "rank"));
  if (plan.shard > 0 && plan.replicas() % plan.shard != 0)
    return bad_input("--shard {} does not divide {} replicas", plan.shard, plan.replicas());
  if (plan.shard > 0 && plan.zero == 0) return bad_input("--shard {} needs --zero of at least 1", plan.shard);
  if (plan.context_by == ContextBy::kAllToAll && (model.heads / plan.tp) % plan.cp != 0)
    return bad_input("--cp-by all_to_all: --cp {} does not divide the {} heads of a rank", plan.cp,
                     model.heads / plan.tp);
  if (plan.schedule != Schedule::k1F1B && plan.vp > 1)
    return bad_input("--schedule {} has no --vp", name(plan.schedule));
  return {};
}

}  // namespace weft::training
