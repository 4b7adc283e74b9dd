#include "apps/training/best.h"

#include <algorithm>
#include <iterator>

namespace weft::training {
namespace {

std::vector<Plan> all_plans(const Model& model, const Plan& base, std::int64_t gpus, std::int64_t per_node) {
  std::vector<Plan> plans;
  const auto offer = [&](const Plan& plan) {
    if (check_plan(model, plan)) plans.push_back(plan);
  };
  for (std::int64_t tp = 1; tp <= std::min<std::int64_t>({16, per_node, gpus}); tp *= 2)
    for (std::int64_t pp = 1; pp <= std::min<std::int64_t>(32, gpus / tp); ++pp) {
      if (model.layers % pp != 0 && (pp & (pp - 1)) != 0) continue;
      for (std::int64_t cp = 1; cp <= 8 && base.seq / cp >= 4096; cp *= 2) {
        if (gpus % (tp * pp * cp) != 0) continue;
        for (std::int64_t ep = 1; ep <= (model.moe() ? std::min<std::int64_t>(64, model.experts) : 1); ep *= 2)
          for (const std::int64_t vp : {1, 2, 4})
            for (const int zero : {1, 3})
              for (const auto recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull})
                for (const std::int64_t mbs : {1, 2, 4}) {
                  Plan plan = base;
                  plan.tp = tp, plan.pp = pp, plan.cp = cp, plan.ep = ep, plan.vp = vp, plan.zero = zero;
                  plan.dp = gpus / (tp * pp * cp), plan.recompute = recompute, plan.micro_batch = mbs;
                  offer(plan);
                }
      }
    }
  return plans;
}

// Names the part on which the loser exceeds the best by most.
std::string reason_of(const Step& best, const Step& loser) {
  const Breakdown &a = best.parts, &b = loser.parts;
  const std::pair<const char*, double> more[] = {
      {"computes longer (recomputation or small GEMMs)", b.compute() - a.compute()},
      {"pipeline bubble", b.bubble - a.bubble},
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
                         const std::function<void(const Plans&, std::int64_t)>& progress) {
  const std::vector<Plan> plans = all_plans(model, base, traffic.gpus(), traffic.gpus_per_node());
  if (plans.empty())
    return bad_input("no plan of {} GPUs divides {} with --global-batch {} and --seq {}", traffic.gpus(), model.name,
                     base.global_batch, base.seq);
  Plans result;
  traffic.estimate_only(true);
  for (const Plan& plan : plans) {
    if (progress) progress(result, static_cast<std::int64_t>(plans.size()));
    ++result.tried;
    Ranked ranked{plan, {}, ""};
    ranked.step.peak = peak_memory(model, plan, card);
    if (!fits(ranked.step.peak, card)) {
      ranked.reason = fmt::format("needs {:.0f} of {:.0f} GiB", ranked.step.peak.total() / 1073741824.0,
                                  card.memory / 1073741824.0);
      result.refused.push_back(std::move(ranked));
      continue;
    }
    auto step = simulate_step(model, plan, card, traffic);
    if (!step) return tl::make_unexpected(step.error());
    ranked.step = std::move(*step);
    ranked.step.pipeline.pieces.clear();
    result.ranked.push_back(std::move(ranked));
  }
  const auto by_time = [](const Ranked& r) { return r.step.seconds; };
  std::ranges::stable_sort(result.ranked, {}, by_time);
  std::ranges::stable_sort(result.refused, {}, [](const Ranked& r) { return r.step.peak.total(); });
  if (result.ranked.empty())
    return bad_input("{} fits in no plan of {} GPUs: the nearest ({}) {}", model.name, traffic.gpus(),
                     describe(result.refused.front().plan), result.refused.front().reason);
  traffic.estimate_only(false);
  const auto first = result.ranked.begin();
  const auto last = first + std::min<std::ptrdiff_t>(simulated, std::ssize(result.ranked));
  for (auto at = first; at != last; ++at) {
    WEFT_TRY(at->step, simulate_step(model, at->plan, card, traffic));
  }
  std::ranges::stable_sort(first, last, {}, by_time);
  for (auto at = first + 1; at != result.ranked.end(); ++at) at->reason = reason_of(first->step, at->step);
  return result;
}

}  // namespace weft::training
