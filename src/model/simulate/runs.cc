#include "model/simulate/runs.h"

#include <cmath>

#include "exec/virtual_run.h"
#include "model/sim/flow/flow_fabric.h"
#include "model/sim/packet/packets.h"
#include "model/simulate/steady.h"

namespace weft::simulate {

using schedule::Plan;
using schedule::Task;

namespace {

constexpr double kMostEnlarged = 1e-3;

// A million steps take about a second.
Care care_for(const Outcome& shortest) {
  constexpr std::int64_t kMuch = 200'000, kTooMuch = 1'000'000;
  return shortest.operations > kTooMuch ? Care::kTwoRuns
         : shortest.operations > kMuch  ? Care::kAverage
                                        : Care::kPeriods;
}

class Simulation {
 public:
  // `total_steps` gets the steps of all runs added. All must outlive this. `nodes`: those that the ranks sit on; empty:
  // in order.
  Simulation(const cost::MachineView& machine, const Task& task, const Plan& plan, const Options& options,
             std::int64_t& total_steps, Nodes nodes = {})
      : machine_(machine),
        task_(task),
        plan_(plan),
        options_(options),
        total_steps_(total_steps),
        nodes_(std::move(nodes)) {}

  // Simulates the first `turn` ranks, which stand for all.
  Result<Outcome> run(Rank turn) const {
    // Parts of different sizes end after different numbers of rounds.
    const bool alike = !schedule::uneven(task_.collective);
    const std::int64_t rounds = options_.fast_forward && alike ? schedule::rounds_of(task_, plan_) : 1;
    if (rounds <= 1) return run_steps(task_, turn);
    Shortened shortened;
    // A connection's slots hold this many rounds: after them they are where they were.
    const std::int64_t period = plan_.algorithm->slots;
    WEFT_TRY(
        Outcome outcome,
        steadily(
            rounds, period, shortened,
            [&](std::int64_t n) { return run_steps(schedule::shortened(task_, plan_, rounds - n), turn); }, care_for));
    outcome.fast_forwarded |= shortened.any;
    outcome.uncertainty = std::max(outcome.uncertainty, shortened.unsure);
    return outcome;
  }

 private:
  Result<Outcome> run_steps(const Task& task, Rank turn) const {
    const int repeats = options_.fast_forward ? plan_.algorithm->repeats_for(schedule::context_of(task, plan_)) : 0;
    if (repeats <= 0) return run_once(task, plan_, turn);
    Shortened shortened;
    // A repeated pattern is where it was once it has passed all simulated ranks.
    const std::int64_t period = std::max<std::int64_t>(2, (std::int64_t{turn} * repeats + task.ranks - 1) / task.ranks);
    WEFT_TRY(Outcome outcome, steadily(
                                  repeats, period, shortened,
                                  [&](std::int64_t repeat_limit) {
                                    Plan plan = plan_;
                                    plan.repeat_limit = static_cast<int>(repeat_limit);
                                    return run_once(task, plan, turn);
                                  },
                                  care_for));
    outcome.fast_forwarded = shortened.any;
    outcome.uncertainty = shortened.unsure;
    return outcome;
  }

  Result<Outcome> run_once(const Task& task, const Plan& plan, Rank turn) const {
    const double most = std::min(options_.most_steps, options_.most_steps_in_all - static_cast<double>(total_steps_));
    if (options_.before_run || std::isfinite(most)) {
      const double steps = operations_of(task, plan, turn);
      if (steps > most)
        return failure(Code::kNoResources, Blame::kOperation, "{:.2g} steps are more than {:.2g}", steps, most);
      if (options_.before_run) options_.before_run(steps);
    }
    sim::Timeline own;
    sim::Timeline& timeline = options_.timeline != nullptr ? *options_.timeline : own;
    sim::Timeline* const watched = options_.trace != nullptr || options_.timeline != nullptr ? &timeline : nullptr;
    if (watched != nullptr) *watched = {};
    Outcome outcome{.folded = task.ranks / turn};
    const auto packets = [&] {
      return sim::packet_carrier(machine_.topology(), *options_.packets, watched, &outcome.packets);
    };
    Rank ranks = task.ranks;
    int strands = plan.channels * plan.algorithm->lanes;
    for (const exec::VirtualJob& job : options_.beside) {
      ranks = std::max(ranks, job.plan.first + job.task.ranks);
      strands = std::max(strands, job.plan.channels * job.plan.algorithm->lanes);
    }
    const auto same_lanes = [&](const exec::VirtualJob& job) {
      return job.plan.algorithm->lanes == plan.algorithm->lanes && strands == plan.channels * plan.algorithm->lanes;
    };
    sim::FlowFabric fabric(
        machine_.topology(), machine_.routes(), ranks,
        {.costs = machine_.costs(),
         .strands = strands,
         .lanes = std::ranges::all_of(options_.beside, same_lanes) ? plan.algorithm->lanes_of_a_block() : 1,
         .max_events = options_.max_events,
         .turn = options_.beside.empty() ? turn : 0,
         .places = places(),
         .disturbances = options_.disturbances,
         .background = options_.background,
         .computing = options_.computing,
         .service = classes(ranks),
         .timeline = watched,
         .why = options_.why || options_.trace != nullptr,
         .carrier = options_.packets ? packets() : nullptr});
    if (options_.beside.empty() && !options_.computing.any()) {
      const fabric::Call call{.protocol = plan.protocol, .publishes = plan.algorithm->needs.memory()};
      WEFT_TRY(outcome.time, exec::run_virtually(
                                 fabric, task, plan, [&](Rank) { return call; }, exec::NoTrace{}, options_.calls));
    } else {
      std::vector<exec::VirtualJob> jobs{{task, plan, options_.calls}};
      jobs.insert(jobs.end(), options_.beside.begin(), options_.beside.end());
      WEFT_TRY(outcome.time, exec::run_together(fabric, jobs));
    }
    if (options_.why || options_.trace != nullptr) {
      auto [shares, pieces] = fabric.critical_path();
      if (plan.staging > Duration() && !shares.empty())
        shares.push_back({sim::Cause::kStaging, "", plan.staging * options_.calls});
      outcome.why = std::move(shares);
      outcome.path_steps = static_cast<std::int64_t>(pieces.size());
      for (const auto& piece : pieces) timeline.mark(piece.actor / strands, piece.begin, piece.end, name(piece.cause));
    }
    outcome.time += plan.staging * options_.calls;
    if (options_.trace != nullptr)
      *options_.trace = timeline.to_trace([&](sim::MaxMin::Resource r) { return fabric.name_of(r); });
    outcome.operations = fabric.operations();
    outcome.represented = static_cast<double>(outcome.operations) * outcome.folded;
    total_steps_ += outcome.operations;
    outcome.computed = fabric.computed();
    const auto busiest = fabric.busiest();
    outcome.busiest_link = busiest.link;
    outcome.busiest_share = busiest.utilisation;
    if (outcome.packets.at >= 0) outcome.longest_queue = fabric.name_of(outcome.packets.at);
    return outcome;
  }

  // The place of each rank; empty where ranks sit on the first nodes.
  std::vector<Rank> places() const {
    std::vector<Rank> places;
    const Rank per_node = task_.ranks_per_node;
    for (Rank r = 0; !nodes_.empty() && r < task_.ranks; ++r)
      places.push_back(nodes_[static_cast<std::size_t>(r / per_node)] * per_node + r % per_node);
    return places;
  }

  // The service class of each rank.
  std::vector<std::uint8_t> classes(Rank ranks) const {
    std::vector<std::uint8_t> of_rank(static_cast<std::size_t>(options_.packets ? ranks : 0));
    for (const exec::VirtualJob& job : options_.beside)
      std::fill_n(of_rank.begin() + job.plan.first, options_.packets ? job.task.ranks : 0,
                  static_cast<std::uint8_t>(job.service));
    return of_rank;
  }

  const cost::MachineView& machine_;
  const Task& task_;
  const Plan& plan_;
  const Options& options_;
  std::int64_t& total_steps_;
  Nodes nodes_;
};

// The nodes of a part of the machine: every `apart`-th node, those of the most frequent class first. Empty: in order.
Nodes sound_nodes(const cost::MachineView& machine, const Task& task, Rank apart) {
  Nodes nodes;
  const Rank per_node = task.ranks_per_node;
  if (apart == 1 && (machine.nodes_alike(machine.endpoints()) || task.ranks == machine.endpoints())) return nodes;
  for (Rank n = 0; n < task.ranks / per_node; ++n) nodes.push_back(machine.sound_rank(n * apart * per_node) / per_node);
  return nodes;
}

}  // namespace

double operations_of(const Task& task, const Plan& plan, Rank ranks) {
  const schedule::LoweringContext cutting(task, plan, schedule::LoweringContext::For::kTime);
  double of_one = 0;
  for (int strand = 0; strand < plan.algorithm->lanes; ++strand) {
    schedule::StrandStream stream(cutting, task.ranks / 2, strand);
    while (stream.next() != nullptr) ++of_one;
  }
  return of_one * schedule::busy_channels(task, plan) * ranks;
}

double without_repetitions(const Task& task, const Plan& plan, Rank ranks) {
  constexpr std::int64_t kRounds = 8;
  if (plan.algorithm->repeats_for(schedule::context_of(task, plan)) > 0) return 0;
  const std::int64_t rounds = schedule::rounds_of(task, plan);
  const bool shortens = rounds > kRounds && !schedule::uneven(task.collective);
  return operations_of(shortens ? schedule::shortened(task, plan, rounds - kRounds) : task, plan, ranks);
}

Result<Outcome> run_all(const cost::MachineView& machine, const Task& task, const Plan& plan, const Options& options,
                        std::int64_t& total_steps, Nodes nodes) {
  return Simulation(machine, task, plan, options, total_steps, std::move(nodes)).run(task.ranks);
}

Result<std::optional<Outcome>> fold(const cost::MachineView& machine, const Task& task, const Plan& plan,
                                    const Options& options, Rank most, std::int64_t& total_steps, Nodes nodes) {
  const std::optional<Outcome> none;
  const Rank least = plan.algorithm->rotation_for(schedule::context_of(task, plan));
  const bool may_fold = options.fold && least > 0 && machine.costs().gpu() && task.ranks <= machine.endpoints() &&
                        !schedule::uneven(task.collective);
  if (!may_fold) return none;
  const Task even = schedule::with_equal_chunks(task, plan);
  if (!options.extrapolate && even.elements != task.elements) return none;  // exact, or not at all
  if (even.elements - task.elements > kMostEnlarged * static_cast<double>(task.elements)) return none;
  const Simulation folded(machine, even, plan, options, total_steps, std::move(nodes));
  for (Rank turn = least; turn <= std::min(most, task.ranks / 2); turn += least) {
    if (task.ranks % turn != 0) continue;
    auto outcome = folded.run(turn);
    if (!outcome && outcome.error().code == Code::kUnsupported && outcome.error().blame == Blame::kOperation)
      continue;  // these ranks are not alike
    if (!outcome) return tl::make_unexpected(outcome.error());
    outcome->enlarged = (even.elements - task.elements) * task.element_bytes;
    return *std::move(outcome);
  }
  return none;
}

Result<Outcome> folded_or_full(const cost::MachineView& machine, const Task& task, const Plan& plan,
                               const Options& options, std::int64_t& total_steps, Rank apart) {
  const Nodes nodes = sound_nodes(machine, task, apart);
  if (apart == 1) {
    WEFT_TRY(auto outcome, fold(machine, task, plan, options, task.ranks, total_steps, nodes));
    if (outcome) return *std::move(outcome);
  }
  return run_all(machine, task, plan, options, total_steps, nodes);
}

}  // namespace weft::simulate
