#include "cost/estimate.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "cost/walk.h"

namespace weft::cost {
namespace {

using schedule::Plan;
using schedule::Task;

constexpr std::int64_t kWalkBudget = 8000;        // steps of channel 0: about a millisecond
constexpr Rank kSmallestWalk = 2;                 // nodes: walks of at least 2, 4 and 8 stand for more
constexpr std::int64_t kWholeNodeBudget = 50000;  // steps, before nodes of many ranks are made smaller, …
constexpr Rank kMostRanks = 64;                   // … so that so many ranks are walked at the most

// All ranks' steps of channel 0, if they are alike.
std::int64_t steps_of(const Task& task, const Plan& plan) {
  std::int64_t n = 0;
  for (int lane = 0; lane < plan.algorithm->lanes; ++lane) {
    auto steps = plan.algorithm->steps(story_of(task, plan, task.ranks / 2, lane, 0));
    while (steps.next() != nullptr) ++n;
  }
  return n * task.ranks;
}

struct Walked {
  double total = 0, latency = 0;
};

Result<Walked> walk(const MachineView& machine, const Task& task, const Plan& plan, Spread spread = {}) {
  Connections connections(machine, task, plan, spread);
  WEFT_CHECK(connections.open_all());
  Walk walk(machine, task, plan, connections);
  return Walked{.total = walk.run(false), .latency = walk.run(true)};
}

// What a doubling of the nodes adds, times what the one before added, where the algorithm says so: 2 for what grows
// with the nodes (rings), 1 for what grows with their logarithm (trees).
std::optional<double> ratio_of(schedule::Growth growth) {
  using enum schedule::Growth;
  if (growth == kUnknown) return std::nullopt;
  return growth == kPerNode || growth == kAboutPerNode ? 2 : 1;
}

// A quantity known at N, 2N and 4N nodes, after further doublings. Each doubling adds the last one's growth times
// `claimed`, or if nothing is, the ratio of the last two; where that is nearly 1, what is added grows evenly, as in
// trees whose ranks send to all children in turn. Chains only grow: `least` is 1 for what is a latency; bytes of a rank
// converge.
double continued(double first, double second, double third, double doublings, std::optional<double> claimed,
                 double least) {
  const double before = second - first, last = third - second;
  if (!(last > 0)) return third;
  const double ratio = claimed ? *claimed : before > 0 ? std::clamp(last / before, least, 2.0) : least;
  constexpr double kNearlyOne = 1.4;  // a grid's sides grow by more
  if (ratio >= 1 && ratio < kNearlyOne)
    return third + last * doublings + last * (1 - 1 / ratio) * doublings * (doublings + 1) / 2;
  return third + last * ratio * (std::pow(ratio, doublings) - 1) / (ratio - 1);
}

// Three smaller machines that stand for a large one, each twice the one before.
struct Shortcut {
  Rank nodes, per_node;  // of the first
  bool in_nodes;         // nodes are doubled; else ranks of a node
  double doublings;      // from the third to all ranks
};

// So many nodes that four times as many are still walked quickly, at least kSmallestWalk: the more, the less is
// guessed.
Rank first_nodes(const Task& task, const Plan& plan, Rank nodes, Rank per_node) {
  Rank first = kSmallestWalk;
  for (Rank next = 2 * first; 8 * next <= nodes; next *= 2) {
    const Task largest = schedule::on_fewer_ranks(task, plan, schedule::ranks_on(plan, 4 * next, per_node));
    if (steps_of(largest, plan) * plan.channels > kWalkBudget) break;
    first = next;
  }
  return first;
}

// Nothing: few enough steps to walk them all.
std::optional<Shortcut> shortcut_for(const MachineView& machine, const Task& task, const Plan& plan) {
  const std::int64_t steps = steps_of(task, plan);
  const Rank nodes = schedule::nodes_of(plan, task.ranks, machine.ranks_per_node(task.ranks));
  const Rank per_node = task.ranks / nodes;
  if (steps > kWalkBudget && nodes > kSmallestWalk << 2) {
    const Rank first = first_nodes(task, plan, nodes, per_node);
    return Shortcut{.nodes = first,
                    .per_node = per_node,
                    .in_nodes = true,
                    .doublings = std::log2(static_cast<double>(nodes) / (4 * first))};
  }
  const Rank first = kMostRanks / nodes / 4;
  const bool small = steps <= kWholeNodeBudget || per_node < 8 * first;
  if (small || !machine.costs().gpu() || plan.nodes != nullptr) return std::nullopt;
  return Shortcut{.nodes = nodes,
                  .per_node = first,
                  .in_nodes = false,
                  .doublings = std::log2(static_cast<double>(per_node) / (4 * first))};
}

// The i-th of them.
Task shrunk(const Task& task, const Plan& plan, const Shortcut& shortcut, int i) {
  const Rank ranks = shortcut.in_nodes ? schedule::ranks_on(plan, shortcut.nodes << i, shortcut.per_node)
                                       : shortcut.nodes * shortcut.per_node << i;
  Task t = schedule::on_fewer_ranks(task, plan, ranks);
  if (!shortcut.in_nodes) t.ranks_per_node = std::min(task.ranks_per_node, shortcut.per_node << i);
  return t;
}

Estimate estimate_of(Duration launch, const Walked& walked) {
  return {launch + Duration::seconds(walked.total), launch, launch + Duration::seconds(walked.latency)};
}

}  // namespace

Result<Estimate> estimate(const MachineView& machine, const Task& task, const Plan& plan) {
  const Duration* launch = machine.costs().launch(plan.protocol);
  if (launch == nullptr)
    return failure(Code::kUnsupported, Blame::kInput, "{} does not exist on this kind of machine",
                   protocol::traits(plan.protocol).name);

  const Duration start = *launch + plan.filling;
  const std::optional<Shortcut> shortcut = shortcut_for(machine, task, plan);
  if (!shortcut) {
    WEFT_TRY(const Walked result, walk(machine, task, plan));
    return estimate_of(start, result);
  }
  Plan like = plan;  // rounds as large as those of all
  like.most_round = schedule::cut_of(task, plan).round;
  Walked at[3];
  for (int i = 0; i < 3; ++i) {
    const Task smaller = shrunk(task, like, *shortcut, i);
    const Spread spread{smaller.ranks / machine.nodes(task.ranks), task.ranks / machine.nodes(task.ranks)};
    WEFT_TRY(at[i], walk(machine, smaller, like, shortcut->in_nodes ? Spread{} : spread));
  }
  const auto claimed = shortcut->in_nodes ? ratio_of(plan.algorithm->growth) : std::nullopt;
  const auto part = [&](double least, auto&& of) {
    return continued(of(at[0]), of(at[1]), of(at[2]), shortcut->doublings, claimed, least);
  };
  Walked result;
  result.latency = part(1, [](const Walked& w) { return w.latency; });
  result.total = result.latency + std::max(0.0, part(0, [](const Walked& w) { return w.total - w.latency; }));
  return estimate_of(start, result);
}

}  // namespace weft::cost
