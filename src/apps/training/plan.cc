#include "apps/training/plan.h"

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
  add("dp", plan.dp);
  text += fmt::format("ZeRO {}, micro-batch {}, recompute {}", plan.zero, plan.micro_batch, name(plan.recompute));
  if (plan.bucket > 0) text += fmt::format(", bucket {} MiB", plan.bucket);
  if (plan.compression.any()) text += fmt::format(", gradients by {}", name(plan.compression));
  if (plan.overlap == 0) text += ", no overlap";
  if (plan.eager != 0) text += ", eager";
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
                                   {"--micro-batch", plan.micro_batch},
                                   {"--global-batch", plan.global_batch},
                                   {"--seq", plan.seq}})
    if (size < 1 || size > (std::int64_t{1} << 31)) return bad_input("{} {}: at least 1", what, size);
  if (plan.bucket < 0 || plan.bucket > (std::int64_t{1} << 20))
    return bad_input("--bucket {}: 0 (the framework's default) to 1048576 MiB", plan.bucket);
  if (plan.overlap != 0 && plan.overlap != 1) return bad_input("--overlap {}: 0 or 1", plan.overlap);
  if (plan.eager != 0 && plan.eager != 1) return bad_input("--eager {}: 0 or 1", plan.eager);
  if (plan.compression.any() && plan.zero > 0)
    return bad_input("--compress {} needs --zero 0: DDP's hooks compress gradients that every replica keeps",
                     name(plan.compression));
  if (plan.compression.kind == Compression::Kind::kHalf && plan.gradient_bytes == 2)
    return bad_input("--compress fp16: gradients have 2 bytes already (--gradient-bytes)");
  if (plan.zero < 0 || plan.zero > 3) return bad_input("--zero {}: 0, 1, 2 or 3", plan.zero);
  if (model.heads % plan.tp != 0)
    return bad_input("--tp {} does not divide {} heads of {}", plan.tp, model.heads, model.name);
  if (plan.pp * plan.vp > model.layers)
    return bad_input("--pp {} with --vp {}: {} has only {} layers", plan.pp, plan.vp, model.name, model.layers);
  if (plan.vp > 1 && model.layers % (plan.pp * plan.vp) != 0)
    return bad_input("--vp {}: {} layers do not divide into {} chunks on each of {} stages", plan.vp, model.layers,
                     plan.vp, plan.pp);
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
    return bad_input("--ep {} does not divide {} experts of {}", plan.ep, model.experts, model.name);
  if ((plan.dp * plan.cp * plan.tp) % plan.ep != 0)
    return bad_input("--ep {} does not divide the {} ranks of a stage", plan.ep, plan.dp * plan.cp * plan.tp);
  if (plan.zero == 3 && plan.pp > 1)
    return bad_input("--zero 3 with --pp {}: weights would be gathered per micro-batch; use --zero 1", plan.pp);
  if (plan.schedule != Schedule::k1F1B && plan.vp > 1)
    return bad_input("--schedule {} has no --vp", name(plan.schedule));
  return {};
}

std::int64_t layers_of_stage(const Model& model, const Plan& plan, std::int64_t stage) {
  return model.layers / plan.pp + (stage < model.layers % plan.pp ? 1 : 0);
}

}  // namespace weft::training
