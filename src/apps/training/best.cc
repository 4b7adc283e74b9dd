#include "apps/training/best.h"

#include <algorithm>
#include <iterator>

#include "base/counted.h"

namespace weft::training {
namespace {

// The values of one option: those that are tried, or the only one that the asker leaves.
class Choices {
 public:
  Choices(const Plan& base, const std::set<std::string>& fixed) : base_(base), fixed_(fixed) {}

  std::vector<std::int64_t> of(const char* option, std::int64_t Plan::*field, std::vector<std::int64_t> usual) const {
    if (fixed_.contains(option)) return {base_.*field};
    std::ranges::sort(usual);
    usual.erase(std::ranges::unique(usual).begin(), usual.end());
    return usual;
  }
  std::vector<Recompute> recompute() const {
    if (fixed_.contains("recompute")) return {base_.recompute};
    return {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
  }
  std::vector<Dispatcher> dispatchers(std::int64_t ep) const {
    if (fixed_.contains("dispatcher") || ep == 1) return {base_.dispatcher};
    return {Dispatcher::kAllToAll, Dispatcher::kDeepEp};
  }
  bool has(const char* option) const { return fixed_.contains(option); }

 private:
  const Plan& base_;
  const std::set<std::string>& fixed_;
};

std::vector<std::int64_t> powers(std::int64_t most) {
  std::vector<std::int64_t> values;
  for (std::int64_t v = 1; v <= most; v *= 2) values.push_back(v);
  return values;
}

// How the ranks of the machine are spread; what is done on them is chosen for each.
std::vector<Plan> spreads(const Model& model, const Plan& base, const Choices& choices, std::int64_t gpus,
                          std::int64_t per_node) {
  std::vector<std::int64_t> stages;
  for (std::int64_t pp = 1; pp <= std::min<std::int64_t>(32, gpus); ++pp)
    if (model.layers % pp == 0 || (pp & (pp - 1)) == 0) stages.push_back(pp);
  const std::int64_t longest = std::max<std::int64_t>(1, std::min<std::int64_t>(8, base.seq / 4096));
  const std::int64_t experts = model.moe() ? std::min<std::int64_t>(64, model.experts) : 1;
  std::vector<Plan> plans;
  for (const std::int64_t tp : choices.of("tp", &Plan::tp, powers(std::min<std::int64_t>({16, per_node, gpus}))))
    for (const std::int64_t pp : choices.of("pp", &Plan::pp, stages))
      for (const std::int64_t cp : choices.of("cp", &Plan::cp, powers(longest)))
        for (const std::int64_t ep : choices.of("ep", &Plan::ep, powers(experts)))
          for (const std::int64_t etp : choices.of(
                   "etp", &Plan::etp, model.moe() ? std::vector{std::int64_t{1}, tp} : std::vector{std::int64_t{1}})) {
            if (tp * pp * cp > gpus || gpus % (tp * pp * cp) != 0) continue;
            Plan plan = base;
            plan.tp = tp, plan.pp = pp, plan.cp = cp, plan.ep = ep, plan.etp = etp;
            if (choices.has("dp") && base.dp != gpus / (tp * pp * cp)) continue;
            plan.dp = gpus / (tp * pp * cp);
            plans.push_back(plan);
          }
  return plans;
}

// `why`: what the first plan that was left out fails by.
std::vector<Plan> all_plans(const Model& model, const Plan& base, const Choices& choices, std::int64_t gpus,
                            std::int64_t per_node, std::string& why) {
  std::vector<Plan> plans;
  for (Plan plan : spreads(model, base, choices, gpus, per_node))
    for (const std::int64_t vp : choices.of("vp", &Plan::vp, {1, 2, 4, 5, 8}))
      for (const std::int64_t zero : choices.of("zero", &Plan::zero, {1, 3}))
        for (const std::int64_t shard :
             choices.of("shard", &Plan::shard,
                        zero == 3 && plan.replicas() > per_node ? std::vector{std::int64_t{0}, per_node}
                                                                : std::vector{std::int64_t{0}}))
          for (const Recompute recompute : choices.recompute())
            for (const Dispatcher dispatcher : choices.dispatchers(plan.ep))
              for (const std::int64_t mbs : choices.of("micro-batch", &Plan::micro_batch, {1, 2, 4})) {
                plan.vp = vp, plan.zero = zero, plan.shard = shard, plan.recompute = recompute;
                plan.dispatcher = dispatcher, plan.micro_batch = mbs;
                if (const auto checked = check_plan(model, plan))
                  plans.push_back(plan);
                else if (why.empty())
                  why = ": " + checked.error().message;
              }
  return plans;
}

// Names the part on which the loser exceeds the best by most.
std::string reason_of(const Step& best, const Step& loser) {
  const Breakdown &a = best.parts, &b = loser.parts;
  const std::pair<const char*, double> more[] = {
      {"computes longer (recomputation or small GEMMs)", b.compute() - a.compute()},
      {"pipeline bubble", b.bubble - a.bubble},
      {"stages that differ", b.imbalance - a.imbalance},
      {"launches of the host", b.host - a.host},
      {"exposed data-parallel communication", b.data - a.data},
      {"exposed tensor-parallel communication", b.tensor - a.tensor},
      {"exposed all_to_all of experts", b.expert - a.expert},
      {"exposed context-parallel communication", b.context - a.context},
      {"optimizer", b.optimizer - a.optimizer}};
  const auto most = *std::max_element(std::begin(more), std::end(more),
                                      [](const auto& x, const auto& y) { return x.second < y.second; });
  return fmt::format("{}: +{:.1f} %", most.first, 100 * most.second / best.seconds);
}

}  // namespace

Result<Plans> best_plans(const Model& model, const Plan& base, const Card& card, Traffic& traffic, int simulated,
                         const std::function<void(const Plans&, std::int64_t)>& progress,
                         const std::set<std::string>& fixed) {
  std::string why;
  const std::vector<Plan> plans =
      all_plans(model, base, Choices(base, fixed), traffic.gpus(), traffic.gpus_per_node(), why);
  if (plans.empty())
    return bad_input("no plan of {} divides {} with --global-batch {} and --seq {}{}{}", counted(traffic.gpus(), "GPU"),
                     model.name, base.global_batch, base.seq,
                     fixed.empty() ? "" : fmt::format(" and the given {}", fmt::join(fixed, ", ")), why);
  Plans result;
  traffic.estimate_only(true);
  for (const Plan& plan : plans) {
    if (progress) progress(result, static_cast<std::int64_t>(plans.size()));
    ++result.tried;
    Ranked ranked{plan, {}, ""};
    ranked.step.peak = peak_memory(model, plan, card, true);
    if (!fits(ranked.step.peak, card)) {
      ranked.reason = fmt::format("needs {:.0f} of {:.0f} GiB", ranked.step.peak.total() / 1073741824.0,
                                  card.memory / 1073741824.0);
      result.refused.push_back(std::move(ranked));
      continue;
    }
    auto step = simulate_step(model, plan, card, traffic, {}, ranked.step.peak);
    if (!step) return tl::make_unexpected(step.error());
    ranked.step = std::move(*step);
    ranked.step.pipeline.pieces.clear();
    result.ranked.push_back(std::move(ranked));
  }
  const auto by_time = [](const Ranked& r) { return r.step.seconds; };
  std::ranges::stable_sort(result.ranked, {}, by_time);
  std::ranges::stable_sort(result.refused, {}, [](const Ranked& r) { return r.step.peak.total(); });
  if (result.ranked.empty())
    return bad_input("{} fits in no plan of {}: the nearest ({}) {}", model.name, counted(traffic.gpus(), "GPU"),
                     describe(result.refused.front().plan), result.refused.front().reason);
  traffic.estimate_only(false);
  const auto first = result.ranked.begin();
  const auto last = first + std::min<std::ptrdiff_t>(simulated, std::ssize(result.ranked));
  for (auto at = first; at != last; ++at) {
    WEFT_TRY(at->step, simulate_step(model, at->plan, card, traffic));
  }
  std::ranges::stable_sort(first, last, {}, by_time);
  for (auto at = first + 1; at != result.ranked.end(); ++at) {
    at->alike = at->step.seconds <= first->step.seconds * (1 + kAlike);
    at->reason =
        at->alike ? fmt::format("equal to the best within {:.0f} %", 100 * kAlike) : reason_of(first->step, at->step);
  }
  return result;
}

}  // namespace weft::training
