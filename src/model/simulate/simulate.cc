#include "model/simulate/simulate.h"

#include "model/sim/packet/effect.h"
#include "model/simulate/odd_nodes.h"
#include "model/simulate/parts.h"
#include "plan/cost/load.h"

namespace weft::simulate {
namespace {

using schedule::Plan;
using schedule::Task;

// Switches off the shortcuts that do not hold where ranks or steps differ from each other.
Options sparing(Options options) {
  // A rank that is slow all the time repeats its steps at one pace; flaps and jitter do not.
  if (options.disturbances.any()) options.fold = false;
  if (!options.disturbances.flaps.empty() || !options.disturbances.changes.empty() ||
      options.disturbances.jitter.kind != sim::Disturbances::Jitter::Kind::kNone)
    options.fast_forward = false;
  const bool traced = options.trace != nullptr || options.timeline != nullptr;
  if (options.packets || !options.beside.empty() || traced) options.fast_forward = false;
  if (options.packets || !options.beside.empty() || (traced && !options.trace_folded)) options.fold = false;
  if (!options.background.streams.empty()) {  // it has a place of its own on the machine
    options.fold = false;
    options.affordable = -1;
  }
  if (options.computing.any()) options.fast_forward = false;
  return options;
}

// Simulates machines whose nodes differ in full if that is affordable.
Result<Outcome> answer(const cost::MachineView& machine, const Task& task, const Plan& plan, const Options& options,
                       std::int64_t& total_steps) {
  const bool differ = !machine.nodes_alike(task.ranks) || !options.disturbances.slow.empty();
  const bool may = differ && options.extrapolate && options.fast_forward && options.affordable >= 0 &&
                   options.background.streams.empty() && machine.costs().gpu() && task.ranks <= machine.endpoints() &&
                   schedule::alike(task.collective) && !schedule::rooted(task.collective) && plan.nodes == nullptr &&
                   task.ranks_per_node == machine.ranks_per_node(task.ranks) &&
                   task.ranks / task.ranks_per_node >= 2 * kWorthwhile;
  if (may && operations_of(task, plan, task.ranks) > options.most_in_full)
    return by_pairs(machine, task, plan, options, total_steps);
  return with_least_work(machine, task, plan, options, total_steps);
}

// The shares of a run that stands for a longer one add up to the longer one's time.
void scale_to(Duration total, std::vector<sim::PathShare>& shares) {
  double sum = 0;
  for (const sim::PathShare& share : shares) sum += share.time.s();
  if (sum <= 0) return;
  for (sim::PathShare& share : shares) share.time = share.time * (total.s() / sum);
}

}  // namespace

std::string_view name(Method method) {
  return method == Method::kFull ? "full" : method == Method::kSymmetric ? "symmetric" : "extrapolated";
}

Status check_packets(const cost::MachineView& machine, const sim::PacketOptions& packets,
                     const sim::Disturbances& disturbances) {
  if (!machine.costs().gpu())
    return bad_input("packets are simulated between GPUs, not between the cores of {}", machine.topology().title);
  if (!disturbances.flaps.empty() || !disturbances.changes.empty())
    return bad_input("links that flap or change while the job runs are simulated by flows, not by packets");
  return sim::check_effect(packets, machine.topology(), machine.routes());
}

Result<Outcome> simulate(const cost::MachineView& machine, const Task& task, const Plan& plan, const Options& asked) {
  if (asked.packets) WEFT_CHECK(check_packets(machine, *asked.packets, asked.disturbances));
  std::int64_t total_steps = 0;
  auto answered = answer(machine, task, plan, sparing(asked), total_steps);
  if (asked.spent != nullptr) *asked.spent += total_steps;
  WEFT_TRY(Outcome outcome, std::move(answered));
  outcome.steps_in_all_runs = total_steps;
  scale_to(outcome.time, outcome.why);
  outcome.method = outcome.extrapolated_from > 0 ? Method::kExtrapolated
                   : outcome.folded > 1          ? Method::kSymmetric
                                                 : Method::kFull;
  if (outcome.method != Method::kExtrapolated) {
    outcome.low = outcome.time * (1 - outcome.uncertainty);
    outcome.high = outcome.time * (1 + outcome.uncertainty);
    return outcome;
  }
  if (outcome.high == Duration()) {
    outcome.low = outcome.time * std::max(0.0, 1 - outcome.uncertainty);
    outcome.high = outcome.time * (1 + outcome.uncertainty);
  }
  // Whatever a part of the machine says, the busiest link of all of it must carry its bytes, call after call.
  if (const Duration least = cost::Load(machine, task, plan).least(task, plan) * asked.calls; least > outcome.low) {
    outcome.low = least;
    outcome.time = std::max(outcome.time, least);
    scale_to(outcome.time, outcome.why);
    outcome.high = std::max(outcome.high, outcome.time);
  }
  return outcome;
}

}  // namespace weft::simulate
