#include "model/simulate/odd_nodes.h"

#include <algorithm>
#include <set>

#include "model/simulate/parts.h"
#include "plan/cost/node_classes.h"

namespace weft::simulate {

using schedule::Plan;
using schedule::Task;

namespace {

// Nodes that are not of the most frequent class, one of each class, and those of slow ranks.
Nodes odd_nodes(const cost::MachineView& machine, const Task& task, const Options& options) {
  const Rank per_node = task.ranks_per_node;
  const std::vector<std::int32_t> classes = cost::node_classes(machine.topology());
  const auto class_of = [&](Rank node) {
    return classes[static_cast<std::size_t>(machine.topology().device(machine.device(node * per_node)).node)];
  };
  const std::int32_t sound = class_of(machine.sound_rank(0) / per_node);
  std::set<std::int32_t> seen;
  Nodes nodes;
  for (Rank n = 0; n < task.ranks / per_node; ++n)
    if (class_of(n) != sound && seen.insert(class_of(n)).second) nodes.push_back(n);
  for (const auto& slow : options.disturbances.slow)
    if (slow.rank < task.ranks && std::ranges::find(nodes, slow.rank / per_node) == nodes.end())
      nodes.push_back(slow.rank / per_node);
  return nodes;
}

}  // namespace

Result<Outcome> by_pairs(const cost::MachineView& machine, const Task& task, const Plan& plan, const Options& options,
                         std::int64_t& total_steps) {
  const Rank per_node = task.ranks_per_node, nodes = task.ranks / per_node;
  const Nodes odd = odd_nodes(machine, task, options);
  Plan like = plan;  // rounds as large as those of all
  like.most_round = cut_of(task, plan).round;
  Options calm = options;
  calm.disturbances.slow.clear();
  const auto part_of = [&](Rank some) { return on_fewer_ranks(task, plan, some * per_node); };
  Rank few = 2;
  constexpr double kOfMost = 32;  // four runs, whose steps are slow: nothing is folded
  while (2 * few < nodes &&
         operations_of(part_of(2 * few), like, 2 * few * per_node) <= options.most_operations / kOfMost)
    few *= 2;
  const Task part = part_of(few);
  const Nodes sound = [&] {
    Nodes all;
    for (Rank n = 0; n < few; ++n) all.push_back(machine.sound_rank(n * per_node) / per_node);
    return all;
  }();
  WEFT_TRY(const Outcome without, run_all(machine, part, like, calm, total_steps, sound));
  double least = 0, most = 1;
  Outcome with;
  const Rank kinds = std::min<Rank>(few, static_cast<Rank>(odd.size()));
  for (const Rank role : {Rank{0}, few / 2, few - kinds}) {
    Nodes on = sound;
    Options disturbed = calm;
    for (Rank i = 0; i < kinds; ++i) {
      const Rank place = std::min(role, few - kinds) + i, node = odd[static_cast<std::size_t>(i)];
      // A slow rank's node may be among the sound ones: no node twice.
      if (const auto same = std::ranges::find(on, node); same != on.end()) *same = on[static_cast<std::size_t>(place)];
      on[static_cast<std::size_t>(place)] = node;
      for (const auto& slow : options.disturbances.slow)
        if (slow.rank / per_node == node)
          disturbed.disturbances.slow.push_back({place * per_node + slow.rank % per_node, slow.factor});
    }
    WEFT_TRY(with, run_all(machine, part, like, disturbed, total_steps, on));
    const double ratio = std::max(1.0, with.time / without.time);
    least = least == 0 ? ratio : std::min(least, ratio);
    most = std::max(most, ratio);
  }
  WEFT_TRY(Outcome outcome, with_least_work(machine, task, plan, calm, total_steps, true));
  outcome.extrapolated_from = std::max(outcome.extrapolated_from, part.ranks);
  // Three roles on few nodes are a sample of all roles: relations_test counts how often the full simulation is inside.
  constexpr double kSample = 0.05;
  outcome.low = outcome.time * least * std::max(0.0, 1 - outcome.uncertainty - kSample);
  outcome.high = outcome.time * most * (1 + outcome.uncertainty + kSample);
  outcome.time = outcome.time * most;
  outcome.uncertainty = std::max(outcome.high / outcome.time, 2 - outcome.low / outcome.time) - 1;
  outcome.busiest_link = with.busiest_link;
  outcome.busiest_share = with.busiest_share;
  return outcome;
}

}  // namespace weft::simulate
