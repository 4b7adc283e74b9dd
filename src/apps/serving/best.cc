#include "apps/serving/best.h"

#include <algorithm>
#include <bit>

namespace weft::serving {
namespace {

std::vector<Plan> plans_of(const Shape& shape, const Plan& like, Rank gpus) {
  std::vector<Plan> plans;
  const auto limit = static_cast<Rank>(std::bit_floor(static_cast<std::uint32_t>(gpus)));
  for (const Rank pp : {1, 2})
    for (Rank stage = 1; stage * pp <= limit; stage *= 2)
      for (Rank dp = 1; dp <= stage; dp *= 2) {
        if (dp > 1 && !shape.experts()) continue;  // replicas of the whole engine do as well
        for (Rank ep = 1; ep <= stage; ep = ep == stage ? 2 * stage : stage) {
          if (ep > 1 && !shape.experts()) continue;
          Plan plan = like;
          plan.tp = stage / dp, plan.pp = pp, plan.dp = dp, plan.ep = ep;
          if (check_plan(shape, plan)) plans.push_back(plan);
        }
      }
  return plans;
}

double at(const Quantiles& q, int percentile) { return percentile >= 99 ? q.p99 : percentile >= 90 ? q.p90 : q.median; }

bool holds(const Point& p, const Goal& goal) {
  return (goal.ttft <= 0 || at(p.ttft, goal.percentile) <= goal.ttft) &&
         (goal.tpot <= 0 || at(p.tpot, goal.percentile) <= goal.tpot);
}

std::string misses(const Point& p, const Goal& goal) {
  std::string text;
  if (goal.ttft > 0 && at(p.ttft, goal.percentile) > goal.ttft)
    text = fmt::format("TTFT {:.0f} ms at one client per engine, {:.0f} allowed", at(p.ttft, goal.percentile) * 1e3,
                       goal.ttft * 1e3);
  if (goal.tpot > 0 && at(p.tpot, goal.percentile) > goal.tpot)
    text += fmt::format("{}TPOT {:.2f} ms at one client per engine, {:.2f} allowed", text.empty() ? "" : "; ",
                        at(p.tpot, goal.percentile) * 1e3, goal.tpot * 1e3);
  return text;
}

// What the winner has less of in a decode step, of the largest difference.
std::string reason_of(const Point& p, const Point& best) {
  const double share = p.tokens_per_gpu / best.tokens_per_gpu;
  if (share > 0.97) return "as good as the first, within 3 %";
  std::string why = fmt::format("{:.0f} % of the first's tokens/s", 100 * share);
  const auto per_token = [](double seconds, const Point& x) { return seconds * x.gpus / std::max(1.0, x.batch); };
  double most = 0;
  const char* name = nullptr;
  for (const auto& [what, part] : {std::pair<const char*, double Parts::*>{"dense GEMMs", &Parts::dense},
                                   {"attention", &Parts::attention},
                                   {"experts", &Parts::experts},
                                   {"all-reduces", &Parts::tensor},
                                   {"expert exchange", &Parts::exchange},
                                   {"the pipeline", &Parts::pipeline},
                                   {"the host", &Parts::host},
                                   {"small kernels", &Parts::small}})
    if (const double more = per_token(p.decode.*part, p) - per_token(best.decode.*part, best); more > most)
      most = more, name = what;
  if (name != nullptr) why += fmt::format(": more of {} per token", name);
  return why;
}

void add_to_frontier(std::vector<Frontier>& frontier, const Question& q, const Point& p) {
  const auto beats = [](const Point& a, const Point& b) {
    return a.tokens_per_gpu >= b.tokens_per_gpu && a.tokens_per_user >= b.tokens_per_user;
  };
  if (std::ranges::any_of(frontier, [&](const Frontier& f) { return beats(f.point, p); })) return;
  std::erase_if(frontier, [&](const Frontier& f) { return beats(p, f.point); });
  frontier.push_back({q, p});
}

}  // namespace

Result<BestPlans> best_serving(Place& place, const Question& asked, const Goal& goal, std::int64_t most,
                               const std::function<void(std::size_t, std::size_t)>& progress) {
  BestPlans found;
  const std::vector<Plan> plans = plans_of(asked.shape, asked.plan, place.gpus());
  bool fits = false;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].pp > 1 && fits) break;
    if (progress) progress(i + 1, plans.size());
    Question q = asked;
    q.prefill.reset();
    q.plan = plans[i];
    q.replicas = place.gpus() / q.plan.gpus();
    q.load.rate = 0;
    q.load.trace.clear();
    std::optional<RankedPlan> best;
    std::string reason;
    double before = 0;
    for (std::int64_t clients = 1; clients <= most; clients *= 2) {
      q.load.concurrency = clients * q.replicas;
      auto point = answer(place, q);
      if (!point) {
        reason = point.error().message;
        break;
      }
      fits = true;
      ++found.tried;
      add_to_frontier(found.frontier, q, *point);
      const bool good = holds(*point, goal);
      if (!good && !best && clients == 1) reason = misses(*point, goal);
      if (good && (!best || point->tokens_per_gpu > best->point.tokens_per_gpu)) best = RankedPlan{q, *point, ""};
      // A full cache, or a goal that is missed: more clients only wait longer.
      if (!good || point->tokens_per_gpu < before * 1.01) break;
      before = point->tokens_per_gpu;
    }
    if (best)
      found.ranked.push_back(std::move(*best));
    else
      found.lost.push_back({q, {}, reason});
  }
  if (!fits)
    return bad_input("{}", found.lost.empty() ? "no plan divides the model on this machine" : found.lost.back().reason);
  std::ranges::stable_sort(found.ranked, std::greater<>(), [](const RankedPlan& r) { return r.point.tokens_per_gpu; });
  for (std::size_t i = 1; i < found.ranked.size(); ++i)
    found.ranked[i].reason = reason_of(found.ranked[i].point, found.ranked[0].point);
  std::ranges::sort(found.frontier, {}, [](const Frontier& f) { return f.point.tokens_per_user; });
  return found;
}

}  // namespace weft::serving
