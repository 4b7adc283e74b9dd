#include "apps/serving/best.h"

#include <algorithm>
#include <optional>
#include <utility>

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

// One plan with more and more clients.
class Search {
 public:
  Search(Place& place, Question question, const Goal& goal, std::int64_t most, BestPlans& found)
      : place_(place), q_(std::move(question)), goal_(goal), most_(most), found_(found) {}

  // `beaten`: tokens/s per GPU that another plan has already.
  RankedPlan run(double beaten) {
    double before = 0;
    std::int64_t bad = 0;
    for (std::int64_t clients = 1; bad == 0; clients = std::min(2 * clients, most_)) {
      const auto point = ask(clients);
      if (!point) break;
      const bool good = holds(*point, goal_);
      if (!good && !best_ && clients == 1) reason_ = misses(*point, goal_);
      if (!good) bad = clients;
      const bool more = point->tokens_per_gpu >= before * 1.01;
      before = point->tokens_per_gpu;
      // A full cache, or a goal that is missed: more clients only wait longer.
      if (!more || clients == most_) break;
    }
    // Rates grow with the clients: what is between them has less than the first that is too many.
    if (best_ && bad > 0 && before > beaten) between(best_->question.load.concurrency / q_.replicas, bad);
    if (best_) return *best_;
    return {q_, {}, reason_};
  }
  bool fits() const { return fits_; }
  bool good() const { return best_.has_value(); }

 private:
  std::optional<Point> ask(std::int64_t clients) {
    q_.load.concurrency = clients * q_.replicas;
    auto point = answer(place_, q_);
    if (!point) {
      reason_ = point.error().message;
      return std::nullopt;
    }
    fits_ = true;
    ++found_.tried;
    add_to_frontier(found_.frontier, q_, *point);
    if (holds(*point, goal_) && (!best_ || point->tokens_per_gpu > best_->point.tokens_per_gpu))
      best_ = RankedPlan{q_, *point, ""};
    return *point;
  }
  // To a sixteenth.
  void between(std::int64_t good, std::int64_t bad) {
    while (bad - good > std::max<std::int64_t>(1, good / 16)) {
      const std::int64_t middle = (good + bad) / 2;
      const auto point = ask(middle);
      if (!point) return;
      (holds(*point, goal_) ? good : bad) = middle;
    }
  }

  Place& place_;
  Question q_;
  Goal goal_;
  std::int64_t most_;
  BestPlans& found_;
  std::optional<RankedPlan> best_;
  std::string reason_;
  bool fits_ = false;
};

}  // namespace

Result<BestPlans> best_serving(Place& place, const Question& asked, const Fixed& fixed, const Goal& goal,
                               std::int64_t most, const std::function<void(std::size_t, std::size_t)>& progress) {
  BestPlans found;
  const Rank gpus = fixed.replicas ? place.gpus() / asked.replicas : place.gpus();
  const std::vector<Plan> plans = plans_of(asked.shape, asked.plan, fixed, gpus);
  bool fits = false;
  double beaten = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].pp > 1 && fits && !fixed.pp) break;
    if (progress) progress(i + 1, plans.size());
    Question q = asked;
    q.prefill.reset();
    q.plan = plans[i];
    if (!fixed.replicas) q.replicas = place.gpus() / q.plan.gpus();
    q.load.rate = 0;
    q.load.trace.clear();
    Search search(place, q, goal, most, found);
    RankedPlan one = search.run(beaten);
    fits = fits || search.fits();
    if (search.good()) beaten = std::max(beaten, one.point.tokens_per_gpu);
    (search.good() ? found.ranked : found.lost).push_back(std::move(one));
  }
  if (!fits) {
    if (!found.lost.empty()) return bad_input("{}", found.lost.back().reason);
    WEFT_CHECK(check_plan(asked.shape, asked.plan));
    return bad_input("no plan divides {} on {} GPUs", asked.shape.name, place.gpus());
  }
  std::ranges::stable_sort(found.ranked, std::greater<>(), [](const RankedPlan& r) { return r.point.tokens_per_gpu; });
  for (std::size_t i = 1; i < found.ranked.size(); ++i)
    found.ranked[i].reason = reason_of(found.ranked[i].point, found.ranked[0].point);
  std::ranges::sort(found.frontier, {}, [](const Frontier& f) { return f.point.tokens_per_user; });
  return found;
}

}  // namespace weft::serving
