#include "apps/serving/best.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "apps/serving/best_search.h"
#include "base/counted.h"

namespace weft::serving {
namespace {

// Powers of two up to `most`, or the one that is asked for.
std::vector<Rank> sizes(bool fixed, Rank asked, Rank most) {
  if (fixed) return {asked};
  std::vector<Rank> all;
  for (Rank n = 1; n <= most; n *= 2) all.push_back(n);
  return all;
}

std::vector<Plan> plans_of(const Shape& shape, const Plan& like, const Fixed& fixed, Rank gpus) {
  std::vector<Plan> plans;
  for (const Rank pp : sizes(fixed.pp, like.pp, 2))
    for (const Rank stage : fixed.tp&& fixed.dp ? std::vector<Rank>{like.stage()} : sizes(false, 1, gpus / pp))
      for (const Rank dp : sizes(fixed.dp, like.dp, stage)) {
        if (dp > 1 && !fixed.dp && !shape.experts()) continue;  // replicas of the whole engine do as well
        const Rank tp = fixed.tp ? like.tp : stage / dp;
        if (tp < 1 || tp * dp * pp > gpus) continue;
        for (const Rank ep : {Rank{1}, tp * dp}) {
          Plan plan = like;
          plan.tp = tp, plan.pp = pp, plan.dp = dp, plan.ep = fixed.ep ? like.ep : ep;
          if (plan.ep > 1 && !fixed.ep && !shape.experts()) continue;
          if (check_plan(shape, plan) && std::ranges::find(plans, plan) == plans.end()) plans.push_back(plan);
        }
      }
  return plans;
}

// What the winner has less of in a decode step, of the largest difference.
std::string reason_of(const RankedPlan& plan, const Point& best, double share) {
  if (share > 0.97) return "as good as the first, within 3 %";
  std::string why = fmt::format("{:.0f} % of the first's tokens/s", 100 * share);
  if (!plan.limit.empty()) return why + ": more clients " + plan.limit;
  const Point& p = plan.point;
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

// Serves the candidates and collects what it finds.
class Comparison {
 public:
  Comparison(Place& place, const Question& asked, const Space& space, const Goal& goal, std::int64_t most)
      : place_(place), asked_(asked), space_(space), goal_(goal), most_(most) {
    asked_.prefill.reset();
    asked_.load.rate = 0;
    asked_.load.trace.clear();
    const Rank gpus = space.fixed.replicas ? place.gpus() / asked.replicas : place.gpus();
    const std::vector<std::string> as_asked{asked.plan.precision};
    for (const std::string& precision : space.precisions.empty() ? as_asked : space.precisions) {
      Plan like = asked.plan;
      like.precision = precision;
      for (Plan& plan : plans_of(asked.shape, like, space.fixed, gpus)) plans_.push_back(std::move(plan));
    }
  }

  std::size_t count() const {
    return (space_.together ? plans_.size() : 0) + (space_.apart ? kPairs : 0) + (space_.batches ? kBatched : 0);
  }
  void together(const std::function<void()>& progress) {
    for (const Plan& plan : plans_) {
      if (plan.pp > 1 && fits_ && !space_.fixed.pp) continue;
      progress();
      Question q = asked_;
      q.plan = plan;
      if (!space_.fixed.replicas) q.replicas = place_.gpus() / q.plan.gpus();
      add(std::move(q));
    }
  }
  void apart(const std::function<void()>& progress) {
    if (place_.gpus() < 2) return;
    const auto worth = [&](const Plan& plan) { return plan.pp == 1 || !fits_ || space_.fixed.pp; };
    std::vector<Plan> prefills, decodes;
    std::ranges::copy_if(plans_, std::back_inserter(decodes), worth);
    // Prefill engines have no replicas of attention: more engines do as well.
    std::ranges::copy_if(decodes, std::back_inserter(prefills), [](const Plan& plan) { return plan.dp == 1; });
    if (space_.prefill) prefills = {*space_.prefill};
    for (Question& q : pairs_of_pools(place_, asked_, decodes, prefills, goal_, most_, kPairs)) {
      progress();
      add(std::move(q));
    }
  }
  // The best plans with other limits of an iteration; one that is not better is left out.
  void batches(const std::function<void()>& progress) {
    sort();
    const std::vector<RankedPlan> firsts(
        found_.ranked.begin(), found_.ranked.begin() + std::min<std::ptrdiff_t>(std::ssize(found_.ranked), kBatched));
    for (const RankedPlan& first : firsts) {
      progress();
      std::optional<RankedPlan> better;
      for (const double budget : kBudgets) {
        if (budget == asked_.engine.token_budget) continue;
        Question q = first.question;
        q.engine.token_budget = budget;
        q.limits = fmt::format(", {:.0f} tokens an iteration", budget);
        Search search(place_, std::move(q), goal_, most_, found_);
        RankedPlan one = search.run(beaten_);
        if (search.good() && of_machine(place_, one) > 1.01 * of_machine(place_, better ? *better : first))
          better = std::move(one);
      }
      if (better) found_.ranked.push_back(std::move(*better));
    }
  }
  Result<BestPlans> finish() && {
    if (!fits_) {
      if (!found_.lost.empty()) return bad_input("{}", found_.lost.back().reason);
      WEFT_CHECK(check_plan(asked_.shape, asked_.plan));
      return bad_input("no plan divides {} on {}", asked_.shape.name, counted(place_.gpus(), "GPU"));
    }
    sort();
    for (std::size_t i = 1; i < found_.ranked.size(); ++i)
      found_.ranked[i].reason = reason_of(found_.ranked[i], found_.ranked[0].point,
                                          of_machine(place_, found_.ranked[i]) / of_machine(place_, found_.ranked[0]));
    std::ranges::sort(found_.frontier, {}, [](const Frontier& f) { return f.point.tokens_per_user; });
    return std::move(found_);
  }

 private:
  static constexpr std::size_t kPairs = 8, kBatched = 3;
  static constexpr double kBudgets[] = {2048, 4096, 16384};  // as engines' guides recommend to try

  void add(Question q) {
    Search search(place_, std::move(q), goal_, most_, found_);
    RankedPlan one = search.run(beaten_);
    fits_ = fits_ || search.fits();
    if (search.good()) beaten_ = std::max(beaten_, one.point.tokens_per_gpu);
    (search.good() ? found_.ranked : found_.lost).push_back(std::move(one));
  }
  void sort() {
    std::ranges::stable_sort(found_.ranked, std::greater<>(),
                             [&](const RankedPlan& r) { return of_machine(place_, r); });
  }

  Place& place_;
  Question asked_;
  const Space& space_;
  const Goal& goal_;
  std::int64_t most_;
  std::vector<Plan> plans_;
  BestPlans found_;
  bool fits_ = false;
  double beaten_ = 0;
};

}  // namespace

Result<BestPlans> best_serving(Place& place, const Question& asked, const Space& space, const Goal& goal,
                               std::int64_t most, const std::function<void(std::size_t, std::size_t)>& progress) {
  Comparison comparison(place, asked, space, goal, most);
  std::size_t at = 0;
  const auto next = [&] {
    ++at;
    if (progress) progress(at, std::max(at, comparison.count()));
  };
  if (space.together) comparison.together(next);
  if (space.apart) comparison.apart(next);
  if (space.batches) comparison.batches(next);
  return std::move(comparison).finish();
}

}  // namespace weft::serving
