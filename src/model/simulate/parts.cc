#include "model/simulate/parts.h"

#include <cmath>

#include "model/simulate/extrapolate.h"
#include "model/simulate/reach.h"
#include "plan/cost/estimate.h"

namespace weft::simulate {

using schedule::Growth;
using schedule::Plan;
using schedule::Task;

namespace {

constexpr Rank kMostRepresentatives = 2048;  // of more ranks than this, the time is extrapolated where it can be

// The nodes from which a tree's lowest levels are extrapolated; 0 if it cannot be extrapolated by levels, or only to a
// few more nodes.
Rank by_levels(const Reach& reach, const Plan& plan, Rank nodes) {
  const bool by_levels = plan.algorithm->growth == Growth::kPerLevel && plan.nodes == nullptr;
  const Rank base = by_levels ? base_of(reach, nodes) : 0;
  return nodes >= kWorthwhile * base ? base : 0;
}

// Returns whether the time may be extrapolated from fewer nodes.
bool may_extrapolate(const cost::MachineView& machine, const Task& task, const Plan& plan, const Options& options) {
  return options.fast_forward && options.extrapolate && options.affordable >= 0 && options.background.streams.empty() &&
         !options.disturbances.any() && machine.nodes_alike(task.ranks) && machine.costs().gpu() &&
         task.ranks <= machine.endpoints() && schedule::alike(task.collective) &&
         task.ranks_per_node == machine.ranks_per_node(task.ranks) &&
         nodes_of(plan, task.ranks, task.ranks_per_node) >= 2 * kWorthwhile;
}

// Extrapolates from fewer nodes; trees whose sizes would cost too much, by levels.
Result<Outcome> from_fewer_nodes(const cost::MachineView& machine, const Task& task, const Plan& plan,
                                 const Options& options, const Reach& reach, Rank least, std::int64_t& total_steps) {
  const Rank nodes = nodes_of(plan, task.ranks, task.ranks_per_node);
  const Budget budget{.all = options.affordable, .size = options.most_operations};
  Plan like = plan;  // rounds as large as those of all
  like.most_round = cut_of(task, plan).round;
  const auto run = [&](Rank some, Rank apart) -> Result<Outcome> {
    const Task part = on_fewer_ranks(task, plan, ranks_on(plan, some, task.ranks_per_node));
    WEFT_TRY(Outcome outcome, folded_or_full(machine, part, like, options, total_steps, apart));
    if (part.ranks < task.ranks) outcome.extrapolated_from = part.ranks;
    return outcome;
  };
  if (const Rank base = by_levels(reach, plan, nodes); base > 0) {
    WEFT_TRY(const Outcome lowest, run(base, 1));
    const double of_third_size = 4.0 * least / base * static_cast<double>(lowest.operations);
    if (of_third_size > budget.size) return extrapolate_by_levels(lowest, nodes, base, reach.tiers, budget, run);
  }
  return extrapolate(plan.algorithm->growth, nodes, least, budget, [&](Rank some) { return run(some, 1); });
}

// Corrects the cost model's time by the simulation of the most nodes that are quickly simulated, and of half and a
// quarter of them. Requires: twice as many nodes take too long.
Result<Outcome> approximate(const cost::MachineView& machine, const Task& task, const Plan& plan,
                            const Options& options, std::int64_t& total_steps, bool sound) {
  constexpr int kSizes = 3;
  constexpr double kLeast = 0.2;  // as far as full runs were seen off (bench/results/2026-11-22-pat-at-scale.md)
  const Rank nodes = nodes_of(plan, task.ranks, task.ranks_per_node);
  Plan like = plan;  // rounds as large as those of all
  like.most_round = cut_of(task, plan).round;
  const auto part_of = [&](Rank some) { return on_fewer_ranks(task, plan, ranks_on(plan, some, task.ranks_per_node)); };
  cost::Estimator estimate(machine, sound);
  Rank some = 1 << (kSizes - 1);
  for (Rank more = 2 * some; more < nodes; some = more, more *= 2)
    if (const Task part = part_of(more); without_repetitions(part, like, part.ranks) > options.most_operations / 2)
      break;
  Outcome outcome;
  double times[kSizes];  // simulated over estimated
  for (int i = 0; i < kSizes; ++i) {
    const Task part = part_of(some >> (kSizes - 1 - i));
    WEFT_TRY(outcome, folded_or_full(machine, part, like, options, total_steps, 1));
    WEFT_TRY(const cost::Estimate estimated, estimate(part, like));
    times[i] = outcome.time / estimated.total;
    outcome.extrapolated_from = part.ranks;
  }
  WEFT_TRY(const cost::Estimate all, estimate(task, plan));
  const double doublings = std::log2(static_cast<double>(nodes) / some);
  // Each further doubling is taken to change the ratio, up or down, by twice as much as the simulated ones did.
  const double of_doubling = std::abs(std::log(times[kSizes - 1] / times[0])) / (kSizes - 1);
  outcome.time = all.total * times[kSizes - 1];
  outcome.uncertainty = std::max(kLeast, std::exp(2 * of_doubling * std::sqrt(doublings)) - 1);
  outcome.represented = operations_of(task, plan, task.ranks);
  outcome.approximate = true;
  return outcome;
}

}  // namespace

Result<Outcome> with_least_work(const cost::MachineView& machine, const Task& task, const Plan& plan,
                                const Options& options, std::int64_t& total_steps, bool sound) {
  const Growth growth = plan.algorithm->growth;
  const bool grows = growth != Growth::kUnknown && growth != Growth::kPerRow;
  const bool may = sound || may_extrapolate(machine, task, plan, options);
  const Rank nodes = may && grows ? nodes_of(plan, task.ranks, task.ranks_per_node) : 0;
  const Reach reach = reach_of(machine, nodes, task.ranks / std::max(1, nodes));
  // Trees scale logarithmically from 8 nodes on; linear growth is visible only from 32.
  const Rank least = std::max(growth == Growth::kPerDoubling || growth == Growth::kPerLevel ? 8 : 32, reach.least);
  const bool extrapolates = nodes >= kWorthwhile * least || by_levels(reach, plan, nodes) > 0;
  const double of_rank = may ? without_repetitions(task, plan, 1) : 0;
  const double affordable = of_rank > 0 ? std::min<double>(task.ranks, options.too_many / of_rank) : task.ranks;
  const Rank most = std::min(extrapolates ? kMostRepresentatives : task.ranks, static_cast<Rank>(affordable));
  if (!sound) {
    WEFT_TRY(const auto folded, fold(machine, task, plan, options, most, total_steps));
    if (folded) return *folded;
  }
  // The growth per node shows on twice the least nodes.
  const Task shown = extrapolates ? on_fewer_ranks(task, plan, ranks_on(plan, 2 * least, task.ranks_per_node)) : task;
  const double needed = extrapolates ? without_repetitions(shown, plan, shown.ranks) : of_rank * task.ranks;
  if (needed > options.too_many || (sound && !extrapolates))
    return approximate(machine, task, plan, options, total_steps, sound);
  if (extrapolates) return from_fewer_nodes(machine, task, plan, options, reach, least, total_steps);
  return run_all(machine, task, plan, options, total_steps);
}

}  // namespace weft::simulate
