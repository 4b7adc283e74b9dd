#include "simulate/simulate.h"

#include <cmath>
#include <set>

#include "cost/estimate.h"
#include "cost/load.h"
#include "cost/node_classes.h"
#include "exec/virtual_run.h"
#include "sim/flow/flow_fabric.h"
#include "sim/packet/packets.h"
#include "simulate/continued.h"
#include "simulate/reach.h"
#include "simulate/steady.h"

namespace weft::simulate {
namespace {

using schedule::Growth;
using schedule::Plan;
using schedule::Task;

constexpr double kMostEnlarged = 1e-3;
constexpr Rank kWorthwhile = 4;              // times as many nodes are worth continuing to
constexpr Rank kMostRepresentatives = 2048;  // more are not worth folding to where time can be continued instead

// About how many operations so many ranks have: those of one in the middle, for each.
double operations_of(const Task& task, const Plan& plan, Rank ranks) {
  const schedule::LoweringContext cutting(task, plan, schedule::LoweringContext::For::kTime);
  double of_one = 0;
  for (int strand = 0; strand < plan.algorithm->lanes; ++strand) {
    schedule::StrandStream stream(cutting, task.ranks / 2, strand);
    while (stream.next() != nullptr) ++of_one;
  }
  return of_one * schedule::busy_channels(task, plan) * ranks;
}

// Operations that are executed after fast-forwarding: few of many rounds, few of many repetitions.
double without_repetitions(const Task& task, const Plan& plan, Rank ranks) {
  constexpr std::int64_t kRounds = 8;
  if (plan.algorithm->repeats_for(schedule::context_of(task, plan)) > 0) return 0;
  const std::int64_t rounds = schedule::rounds_of(task, plan);
  return operations_of(rounds > kRounds ? schedule::shortened(task, plan, rounds - kRounds) : task, plan, ranks);
}

using Nodes = std::vector<Rank>;

class Simulation {
 public:
  // `carried_out` gets the steps of all runs added. All must outlive this. `nodes`: those that the ranks sit on; empty:
  // in order.
  Simulation(const cost::MachineView& machine, const Task& task, const Plan& plan, const Options& options,
             std::int64_t& carried_out, Nodes nodes = {})
      : machine_(machine),
        task_(task),
        plan_(plan),
        options_(options),
        carried_out_(carried_out),
        nodes_(std::move(nodes)) {}

  // With these ranks standing for all.
  Result<Outcome> run(Rank turn) const {
    const std::int64_t rounds = options_.fast_forward ? schedule::rounds_of(task_, plan_) : 1;
    if (rounds <= 1) return run_steps(task_, turn);
    bool shortened = false;
    // A connection's slots hold this many rounds: after them they are where they were.
    const std::int64_t period = plan_.algorithm->slots;
    WEFT_TRY(Outcome outcome, steadily(rounds, period, shortened, [&](std::int64_t n) {
               return run_steps(schedule::shortened(task_, plan_, rounds - n), turn);
             }));
    outcome.fast_forwarded |= shortened;
    return outcome;
  }

 private:
  Result<Outcome> run_steps(const Task& task, Rank turn) const {
    const int repeats = options_.fast_forward ? plan_.algorithm->repeats_for(schedule::context_of(task, plan_)) : 0;
    if (repeats <= 0) return run_once(task, plan_, turn);
    bool shortened = false;
    // Once past all ranks that are carried out, a repeated pattern is where it was.
    const std::int64_t period = std::max<std::int64_t>(2, (std::int64_t{turn} * repeats + task.ranks - 1) / task.ranks);
    WEFT_TRY(Outcome outcome, steadily(repeats, period, shortened, [&](std::int64_t repeat_limit) {
               Plan plan = plan_;
               plan.repeat_limit = static_cast<int>(repeat_limit);
               return run_once(task, plan, turn);
             }));
    outcome.fast_forwarded = shortened;
    return outcome;
  }

  Result<Outcome> run_once(const Task& task, const Plan& plan, Rank turn) const {
    const bool bounded = std::isfinite(options_.most_steps);
    if (options_.before_run || bounded) {
      const double steps = operations_of(task, plan, turn);
      if (bounded && steps > options_.most_steps)
        return failure(Code::kNoResources, Blame::kOperation, "{:.2g} steps are more than {:.2g}", steps,
                       options_.most_steps);
      if (options_.before_run) options_.before_run(steps);
    }
    sim::Timeline timeline;
    sim::Timeline* const watched = options_.trace != nullptr ? &timeline : nullptr;
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
    sim::FlowFabric fabric(machine_.topology(), machine_.routes(), ranks,
                           {.costs = machine_.costs(),
                            .strands = strands,
                            .lanes = std::ranges::all_of(options_.beside, same_lanes) ? plan.algorithm->lanes : 1,
                            .max_events = options_.max_events,
                            .turn = options_.beside.empty() ? turn : 0,
                            .places = places(),
                            .disturbances = options_.disturbances,
                            .background = options_.background,
                            .computing = options_.computing,
                            .service = classes(ranks),
                            .timeline = watched,
                            .why = options_.why || watched != nullptr,
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
    if (options_.why || watched != nullptr) {
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
    carried_out_ += outcome.operations;
    outcome.computed = fabric.computed();
    const auto busiest = fabric.busiest();
    outcome.busiest_link = busiest.link;
    outcome.busiest_share = busiest.utilisation;
    if (outcome.packets.at >= 0) outcome.longest_queue = fabric.name_of(outcome.packets.at);
    return outcome;
  }

  // By rank. None where they sit on the first nodes.
  std::vector<Rank> places() const {
    std::vector<Rank> places;
    const Rank per_node = task_.ranks_per_node;
    for (Rank r = 0; !nodes_.empty() && r < task_.ranks; ++r)
      places.push_back(nodes_[static_cast<std::size_t>(r / per_node)] * per_node + r % per_node);
    return places;
  }

  // By rank.
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
  std::int64_t& carried_out_;
  Nodes nodes_;
};

// By the least turn that the algorithm claims and by which the machine looks the same, if there is one of at most
// `most` ranks.
Result<std::optional<Outcome>> fold(const cost::MachineView& machine, const Task& task, const Plan& plan,
                                    const Options& options, Rank most, std::int64_t& carried_out, Nodes nodes = {}) {
  const std::optional<Outcome> none;
  const Rank least = plan.algorithm->rotation_for(schedule::context_of(task, plan));
  const bool may_fold = options.fold && least > 0 && machine.costs().gpu() && task.ranks <= machine.endpoints() &&
                        !schedule::uneven(task.collective);
  if (!may_fold) return none;
  const Task even = schedule::with_equal_chunks(task, plan);
  if (!options.extrapolate && even.elements != task.elements) return none;  // exact, or not at all
  if (even.elements - task.elements > kMostEnlarged * static_cast<double>(task.elements)) return none;
  const Simulation folded(machine, even, plan, options, carried_out, std::move(nodes));
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

// On a part of the machine: every `apart`-th node, those of the most frequent class first. Empty: in order.
Nodes sound_nodes(const cost::MachineView& machine, const Task& task, Rank apart) {
  Nodes nodes;
  const Rank per_node = task.ranks_per_node;
  if (apart == 1 && (machine.nodes_alike(machine.endpoints()) || task.ranks == machine.endpoints())) return nodes;
  for (Rank n = 0; n < task.ranks / per_node; ++n) nodes.push_back(machine.sound_rank(n * apart * per_node) / per_node);
  return nodes;
}

Result<Outcome> folded_or_full(const cost::MachineView& machine, const Task& task, const Plan& plan,
                               const Options& options, std::int64_t& carried_out, Rank apart) {
  const Nodes nodes = sound_nodes(machine, task, apart);
  if (apart == 1) {
    WEFT_TRY(auto outcome, fold(machine, task, plan, options, task.ranks, carried_out, nodes));
    if (outcome) return *std::move(outcome);
  }
  return Simulation(machine, task, plan, options, carried_out, nodes).run(task.ranks);
}

// The nodes from which a tree's lowest levels are extrapolated, if it can be continued by levels and on so many more
// that it is worth it; else 0.
Rank by_levels(const Reach& reach, const Plan& plan, Rank nodes) {
  const bool by_levels = plan.algorithm->growth == Growth::kPerLevel && plan.nodes == nullptr;
  const Rank base = by_levels ? base_of(reach, nodes) : 0;
  return nodes >= kWorthwhile * base ? base : 0;
}

// May the time be extrapolated from fewer nodes?
bool may_continue(const cost::MachineView& machine, const Task& task, const Plan& plan, const Options& options) {
  return options.fast_forward && options.extrapolate && options.affordable >= 0 && options.background.streams.empty() &&
         !options.disturbances.any() && machine.nodes_alike(task.ranks) && machine.costs().gpu() &&
         task.ranks <= machine.endpoints() && !schedule::uneven(task.collective) &&
         task.ranks_per_node == machine.ranks_per_node(task.ranks) &&
         nodes_of(plan, task.ranks, task.ranks_per_node) >= 2 * kWorthwhile;
}

// What may be left out: nothing of what makes ranks or steps differ from each other.
Options sparing(Options options) {
  // A rank that is slow all the time repeats its steps at one pace; flaps and jitter do not.
  if (options.disturbances.any()) options.fold = false;
  if (!options.disturbances.flaps.empty() || !options.disturbances.changes.empty() ||
      options.disturbances.jitter.kind != sim::Disturbances::Jitter::Kind::kNone)
    options.fast_forward = false;
  if (options.packets || !options.beside.empty() || options.trace != nullptr) options.fast_forward = false;
  if (options.packets || !options.beside.empty() || (options.trace != nullptr && !options.trace_folded))
    options.fold = false;
  if (!options.background.streams.empty()) {  // it has a place of its own on the machine
    options.fold = false;
    options.affordable = -1;
  }
  if (options.computing.any()) options.fast_forward = false;
  return options;
}

// Continued from fewer nodes. Trees whose sizes side by side would cost too much, by levels.
Result<Outcome> from_fewer_nodes(const cost::MachineView& machine, const Task& task, const Plan& plan,
                                 const Options& options, const Reach& reach, Rank least, std::int64_t& carried_out) {
  const Rank nodes = nodes_of(plan, task.ranks, task.ranks_per_node);
  const Budget budget{.all = options.affordable, .size = options.most_operations};
  Plan like = plan;  // rounds as large as those of all
  like.most_round = cut_of(task, plan).round;
  const auto run = [&](Rank some, Rank apart) -> Result<Outcome> {
    const Task part = on_fewer_ranks(task, plan, ranks_on(plan, some, task.ranks_per_node));
    WEFT_TRY(Outcome outcome, folded_or_full(machine, part, like, options, carried_out, apart));
    if (part.ranks < task.ranks) outcome.continued_from = part.ranks;
    return outcome;
  };
  if (const Rank base = by_levels(reach, plan, nodes); base > 0) {
    WEFT_TRY(const Outcome lowest, run(base, 1));
    const double of_third_size = 4.0 * least / base * static_cast<double>(lowest.operations);
    if (of_third_size > budget.size) return continued_by_levels(lowest, nodes, base, reach.tiers, budget, run);
  }
  return continued(plan.algorithm->growth, nodes, least, budget, [&](Rank some) { return run(some, 1); });
}

// What the cost model says, corrected by what was simulated on the most nodes that are quickly done, and on half and a
// quarter of them. Requires: twice as many are not.
Result<Outcome> roughly(const cost::MachineView& machine, const Task& task, const Plan& plan, const Options& options,
                        std::int64_t& carried_out, bool sound = false) {
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
  double times[kSizes];  // as long as estimated
  for (int i = 0; i < kSizes; ++i) {
    const Task part = part_of(some >> (kSizes - 1 - i));
    WEFT_TRY(outcome, folded_or_full(machine, part, like, options, carried_out, 1));
    WEFT_TRY(const cost::Estimate estimated, estimate(part, like));
    times[i] = outcome.time / estimated.total;
    outcome.continued_from = part.ranks;
  }
  WEFT_TRY(const cost::Estimate all, estimate(task, plan));
  const double doublings = std::log2(static_cast<double>(nodes) / some);
  // Each doubling changes it as those did that were seen, one way or the other: twice the spread of that.
  const double of_doubling = std::abs(std::log(times[kSizes - 1] / times[0])) / (kSizes - 1);
  outcome.time = all.total * times[kSizes - 1];
  outcome.uncertainty = std::max(kLeast, std::exp(2 * of_doubling * std::sqrt(doublings)) - 1);
  outcome.represented = operations_of(task, plan, task.ranks);
  outcome.roughly = true;
  return outcome;
}

// Folded, else continued, else in full, or roughly. `sound`: of a machine whose nodes differ, as if all were of the
// most frequent class; then from a part of it in any case.
Result<Outcome> with_least_work(const cost::MachineView& machine, const Task& task, const Plan& plan,
                                const Options& options, std::int64_t& carried_out, bool sound = false) {
  const Growth growth = plan.algorithm->growth;
  const bool grows = growth != Growth::kUnknown && growth != Growth::kPerRow;
  const bool may = sound || may_continue(machine, task, plan, options);
  const Rank nodes = may && grows ? nodes_of(plan, task.ranks, task.ranks_per_node) : 0;
  const Reach reach = reach_of(machine, nodes, task.ranks / std::max(1, nodes));
  // Trees scale logarithmically from 8 nodes on; linear growth is visible only from 32.
  const Rank least = std::max(growth == Growth::kPerDoubling || growth == Growth::kPerLevel ? 8 : 32, reach.least);
  const bool continues = nodes >= kWorthwhile * least || by_levels(reach, plan, nodes) > 0;
  const double of_rank = may ? without_repetitions(task, plan, 1) : 0;
  const double affordable = of_rank > 0 ? std::min<double>(task.ranks, options.too_many / of_rank) : task.ranks;
  const Rank most = std::min(continues ? kMostRepresentatives : task.ranks, static_cast<Rank>(affordable));
  if (!sound) {
    WEFT_TRY(const auto folded, fold(machine, task, plan, options, most, carried_out));
    if (folded) return *folded;
  }
  // What more nodes add shows on twice the least.
  const Task shown = continues ? on_fewer_ranks(task, plan, ranks_on(plan, 2 * least, task.ranks_per_node)) : task;
  const double needed = continues ? without_repetitions(shown, plan, shown.ranks) : of_rank * task.ranks;
  if (needed > options.too_many || (sound && !continues))
    return roughly(machine, task, plan, options, carried_out, sound);
  if (continues) return from_fewer_nodes(machine, task, plan, options, reach, least, carried_out);
  return Simulation(machine, task, plan, options, carried_out).run(task.ranks);
}

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

// Nodes differ, and all of them in full would take minutes. The healthy machine is extrapolated, as always, and what
// the odd nodes make of it is seen on a few nodes: with them and without, in three roles, since where a node sits in a
// tree counts. The answer is the worst of these, its bounds are all of them.
Result<Outcome> by_pairs(const cost::MachineView& machine, const Task& task, const Plan& plan, const Options& options,
                         std::int64_t& carried_out) {
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
  WEFT_TRY(const Outcome without, Simulation(machine, part, like, calm, carried_out, sound).run(part.ranks));
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
    WEFT_TRY(with, Simulation(machine, part, like, disturbed, carried_out, on).run(part.ranks));
    const double ratio = std::max(1.0, with.time / without.time);
    least = least == 0 ? ratio : std::min(least, ratio);
    most = std::max(most, ratio);
  }
  WEFT_TRY(Outcome outcome, with_least_work(machine, task, plan, calm, carried_out, true));
  outcome.continued_from = std::max(outcome.continued_from, part.ranks);
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

// Where nodes differ, in full if that is affordable.
Result<Outcome> answer(const cost::MachineView& machine, const Task& task, const Plan& plan, const Options& options,
                       std::int64_t& carried_out) {
  const bool differ = !machine.nodes_alike(task.ranks) || !options.disturbances.slow.empty();
  const bool may = differ && options.extrapolate && options.fast_forward && options.affordable >= 0 &&
                   options.background.streams.empty() && machine.costs().gpu() && task.ranks <= machine.endpoints() &&
                   !schedule::uneven(task.collective) && !schedule::rooted(task.collective) && plan.nodes == nullptr &&
                   task.ranks_per_node == machine.ranks_per_node(task.ranks) &&
                   task.ranks / task.ranks_per_node >= 2 * kWorthwhile;
  if (may && operations_of(task, plan, task.ranks) > options.most_in_full)
    return by_pairs(machine, task, plan, options, carried_out);
  return with_least_work(machine, task, plan, options, carried_out);
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

Status check_packets(const cost::MachineView& machine, const sim::Disturbances& disturbances) {
  if (!machine.costs().gpu())
    return bad_input("packets are simulated between GPUs, not between the cores of {}", machine.topology().title);
  if (!disturbances.flaps.empty() || !disturbances.changes.empty())
    return bad_input("links that flap or change while the job runs are simulated by flows, not by packets");
  return {};
}

Result<Outcome> simulate(const cost::MachineView& machine, const Task& task, const Plan& plan, const Options& asked) {
  if (asked.packets) WEFT_CHECK(check_packets(machine, asked.disturbances));
  std::int64_t carried_out = 0;
  WEFT_TRY(Outcome outcome, answer(machine, task, plan, sparing(asked), carried_out));
  outcome.carried_out = carried_out;
  scale_to(outcome.time, outcome.why);
  outcome.method = outcome.continued_from > 0 ? Method::kExtrapolated
                   : outcome.folded > 1       ? Method::kSymmetric
                                              : Method::kFull;
  if (outcome.method != Method::kExtrapolated) {
    outcome.low = outcome.high = outcome.time;
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
