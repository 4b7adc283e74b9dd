#include "apps/serving/best_search.h"

#include <algorithm>

namespace weft::serving {
namespace {

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

void add_to_frontier(std::vector<Frontier>& frontier, const Question& q, const Point& p) {
  const auto beats = [](const Point& a, const Point& b) {
    return a.tokens_per_gpu >= b.tokens_per_gpu && a.tokens_per_user >= b.tokens_per_user;
  };
  if (std::ranges::any_of(frontier, [&](const Frontier& f) { return beats(f.point, p); })) return;
  std::erase_if(frontier, [&](const Frontier& f) { return beats(p, f.point); });
  frontier.push_back({q, p});
}

}  // namespace

RankedPlan Search::run(double beaten) {
  double before = 0;
  std::int64_t bad = 0;
  for (std::int64_t clients = 1; bad == 0; clients = std::min(2 * clients, most_)) {
    const auto point = ask(clients);
    if (!point) break;
    const bool good = holds(*point, goal_);
    if (!good && !best_ && clients == 1) reason_ = misses(*point, goal_);
    if (!good) bad = clients, limit_ = missed(*point);
    const bool more = point->tokens_per_gpu >= before * 1.01;
    before = point->tokens_per_gpu;
    // A full cache, or a goal that is missed: more clients only wait longer.
    if (!more || clients == most_) break;
  }
  // Rates grow with the clients: what is between them has less than the first that is too many.
  if (best_ && bad > 0 && before > beaten) between(best_->question.load.concurrency / q_.replicas, bad);
  if (best_) {
    best_->limit = limit_;
    return *best_;
  }
  return {q_, {}, reason_};
}

std::optional<Point> Search::ask(std::int64_t clients) {
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

std::string Search::missed(const Point& p) const {
  const bool ttft = goal_.ttft > 0 && at(p.ttft, goal_.percentile) > goal_.ttft;
  const bool tpot = goal_.tpot > 0 && at(p.tpot, goal_.percentile) > goal_.tpot;
  return ttft && tpot ? "miss TTFT and TPOT" : ttft ? "miss TTFT" : "miss TPOT";
}

// To a sixteenth.
void Search::between(std::int64_t good, std::int64_t bad) {
  while (bad - good > std::max<std::int64_t>(1, good / 16)) {
    const std::int64_t middle = (good + bad) / 2;
    const auto point = ask(middle);
    if (!point) return;
    (holds(*point, goal_) ? good : bad) = middle;
  }
}

double of_machine(const Place& place, const RankedPlan& plan) {
  return plan.point.tokens_per_gpu * plan.question.gpus() / place.gpus();
}

}  // namespace weft::serving
