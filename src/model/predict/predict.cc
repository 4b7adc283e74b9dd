#include "model/predict/predict.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"
#include "plan/cost/estimate.h"

namespace weft::predict {
namespace {

// nccl-tests starts its calls, waits for the last and divides. Where data flows one way, ranks need not wait for each
// other: the calls overlap, and the pace is what a few more calls add.
constexpr int kFirstCalls = 3, kMoreCalls = 2;

// Does the choice's simulation answer the question as it stands?
bool plain(const simulate::Options& o) {
  return o.fold && o.extrapolate && o.fast_forward && o.calls == 1 && !o.disturbances.any() && !o.computing.any() &&
         o.background.streams.empty() && !o.packets && o.beside.empty() && o.trace == nullptr &&
         o.timeline == nullptr && !o.why;
}

// The best plan of every algorithm and protocol first, then their other channels and slices; each in the order of the
// estimates.
std::vector<const tune::Candidate*> in_order(const std::vector<tune::Candidate>& plans) {
  std::vector<const tune::Candidate*> first, others;
  std::set<std::pair<const schedule::Algorithm*, protocol::Protocol>> seen;
  for (const tune::Candidate& c : plans)
    (seen.emplace(c.plan.algorithm, c.plan.protocol).second ? first : others).push_back(&c);
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

bool one_call(const Query& q) { return q.calls <= 1 || !schedule::rooted(q.question.task.collective); }

Result<simulate::Outcome> time_of(const cost::MachineView& machine, const Query& q, const schedule::Plan& plan,
                                  simulate::Options options) {
  const schedule::Task& task = q.question.task;
  if (one_call(q)) return simulate::simulate(machine, task, plan, options);
  options.calls = std::min(q.calls, kFirstCalls);
  WEFT_TRY(simulate::Outcome first, simulate::simulate(machine, task, plan, options));
  double total = first.time.s();
  if (q.calls > kFirstCalls) {
    options.calls += kMoreCalls;
    options.trace = nullptr;
    options.timeline = nullptr;
    WEFT_TRY(const simulate::Outcome more, simulate::simulate(machine, task, plan, options));
    total += (q.calls - kFirstCalls) * (more.time - first.time).s() / kMoreCalls;
    first.steps_in_all_runs += more.steps_in_all_runs;
  }
  const double of_first = total / q.calls / first.time.s();
  first.time = first.time * of_first;
  first.low = first.low * of_first;
  first.high = first.high * of_first;
  return first;
}

// A plan that may be simulated, and what it is expected to take.
struct Hopeful {
  const tune::Candidate* plan;
  Duration expected;
};

// Estimates are off by what an algorithm, its channels and slices do to links, proxies and slots, which is nearly the
// same on few nodes as on many (bench/results/2026-11-25-simulator.md). So on many nodes a plan is expected to take its
// estimate, times what its simulation on few nodes takes over its estimate there.
class Pilots {
 public:
  Pilots(const cost::MachineView& machine, const schedule::Task& task)
      : machine_(machine), task_(task), estimate_(machine) {}

  // True if full simulations cost enough more than these.
  bool worth() const {
    constexpr Rank kTimes = 4;
    const bool whole_nodes = task_.ranks_per_node == machine_.ranks_per_node(task_.ranks);
    return machine_.nodes_alike(task_.ranks) && task_.ranks <= machine_.endpoints() && whole_nodes &&
           schedule::alike(task_.collective) && task_.ranks / task_.ranks_per_node >= kTimes * kNodes;
  }

  // Nothing where it would take more steps than `most`. Its own are taken from `left`.
  std::optional<Duration> expected(const tune::Candidate& candidate, double most, double& left) {
    schedule::Plan plan = candidate.plan;
    if (plan.nodes != nullptr) return std::nullopt;
    plan.most_round = schedule::cut_of(task_, plan).round;  // rounds as large as those of all nodes
    const schedule::Task part =
        schedule::on_fewer_ranks(task_, plan, schedule::ranks_on(plan, kNodes, task_.ranks_per_node));
    std::int64_t spent = 0;
    const auto simulated = simulate::simulate(machine_, part, plan, {.most_steps_in_all = most, .spent = &spent});
    left -= static_cast<double>(spent);
    if (!simulated) return std::nullopt;
    const auto estimated = estimate_(part, plan, std::nullopt);
    if (!estimated) return std::nullopt;
    return candidate.estimate.total * (simulated->time / estimated->total);
  }

 private:
  static constexpr Rank kNodes = 4;
  const cost::MachineView& machine_;
  const schedule::Task& task_;
  cost::Estimator estimate_;
};

// On thousands of ranks a step is slow, and one plan alone takes a million of them.
constexpr Rank kLarge = 1024;

// One plan with small slices can take all steps. So plans that take few have the first half, then all what is left.
struct Pass {
  double most, until;  // steps of a plan, steps that are left
};
constexpr double kPlansAtLeast = 8;  // that the steps suffice for; a choice
std::array<Pass, 2> passes(double steps) { return {{{steps / kPlansAtLeast, steps / 2}, {steps, 0}}}; }

// The plans in the order in which they are to be simulated. `left`: steps that may be spent on that.
std::vector<Hopeful> hopefuls(const cost::MachineView& machine, const Query& q,
                              const std::vector<tune::Candidate>& plans, double left) {
  std::vector<Hopeful> all;
  for (const tune::Candidate* c : in_order(plans)) all.push_back({c, c->estimate.total});
  Pilots pilots(machine, q.question.task);
  if (all.size() < 2 || q.question.task.ranks > kLarge || !pilots.worth()) return all;
  std::vector<Hopeful> tried;
  std::optional<Duration> best;
  std::ranges::stable_sort(all, {}, [](const Hopeful& h) { return h.plan->estimate.total; });
  std::set<const tune::Candidate*> known;
  for (const auto [most, until] : passes(left))
    for (const Hopeful& h : all) {
      if (left <= until || (best && h.expected >= *best * kEstimateAbove)) break;
      if (known.contains(h.plan)) continue;
      if (q.progress) q.progress(static_cast<int>(known.size()), static_cast<int>(all.size()));
      const auto expected = pilots.expected(*h.plan, std::min(most, left), left);
      if (!expected) continue;
      known.insert(h.plan);
      tried.push_back({h.plan, *expected});
      best = std::min(best.value_or(*expected), *expected);
    }
  std::ranges::stable_sort(tried, {}, &Hopeful::expected);
  for (const Hopeful& h : all)
    if (!known.contains(h.plan)) tried.push_back(h);
  return tried;
}

// weft's own choice, with its time.
Result<Answer> search(const cost::MachineView& machine, const Query& q) {
  const tune::Question& question = q.question;
  WEFT_TRY(const auto plans, tune::plans(machine, question, kEstimateAbove));
  Answer answer{.choice = plans.front(), .outcome = {}, .tried = 0, .plans = static_cast<int>(plans.size())};
  const bool large = question.task.ranks > kLarge;
  double left = large ? q.search_steps / 5 : q.search_steps;
  std::int64_t steps = 0;
  const tune::Candidate* best = nullptr;
  std::set<const tune::Candidate*> simulated;
  const std::vector<Hopeful> plans_in_order = hopefuls(machine, q, plans, left);
  for (const auto [most, until] : large ? std::array<Pass, 2>{{{left, 0}, {0, left}}} : passes(left))
    for (const Hopeful& hopeful : plans_in_order) {
      const tune::Candidate* const c = hopeful.plan;
      if (simulated.contains(c)) continue;
      if (best != nullptr && c->estimate.total >= answer.outcome.time * kEstimateAbove) continue;
      // Its own time is needed in any case, whatever that takes.
      const bool needed = best == nullptr;
      if (!needed && left <= until) break;
      simulate::Options options{.max_events = q.options.max_events};
      options.most_steps = q.options.most_steps;
      if (!needed) options.most_steps_in_all = std::min(most, left);
      std::int64_t spent = 0;
      options.spent = &spent;
      if (needed) options.before_run = q.options.before_run;
      if (q.progress) q.progress(answer.tried, answer.plans);
      auto outcome = simulate::simulate(machine, question.task, c->plan, options);
      steps += spent;
      if (!needed) left -= static_cast<double>(spent);
      if (!outcome && !needed && outcome.error().code == Code::kNoResources) continue;
      if (!outcome) return tl::make_unexpected(outcome.error());
      simulated.insert(c);
      ++answer.tried;
      const bool faster = needed || outcome->time < answer.outcome.time ||
                          (outcome->time == answer.outcome.time && c->plan.algorithm == best->plan.algorithm &&
                           c->plan.protocol == best->plan.protocol && c->plan.channels < best->plan.channels);
      if (!faster) continue;
      best = c;
      answer.outcome = *std::move(outcome);
    }
  answer.choice = *best;
  answer.choice.chosen = true;
  answer.choice.reason = answer.tried == 1 ? fmt::format("fastest: {} simulated", format_duration(answer.outcome.time))
                                           : fmt::format("fastest of {} that were simulated: {}", answer.tried,
                                                         format_duration(answer.outcome.time));
  answer.outcome.steps_in_all_runs = steps;
  return answer;
}

}  // namespace

Result<Answer> predict(const cost::MachineView& machine, const Query& q) {
  Answer answer;
  if (q.nccl != nullptr) {
    WEFT_TRY(answer.choice, tune::nccl::choose(machine, *q.nccl, q.question));
  } else if (!machine.costs().gpu()) {
    WEFT_TRY(answer.choice, tune::choose(machine, q.question));
  } else {
    WEFT_TRY(answer, search(machine, q));
  }
  simulate::Options options = q.options;
  if (q.check) WEFT_CHECK(q.check(answer.choice.plan, options));
  if (answer.tried > 0 && one_call(q) && plain(options)) return answer;
  WEFT_TRY(answer.outcome, time_of(machine, q, answer.choice.plan, std::move(options)));
  return answer;
}

}  // namespace weft::predict
