#include "plan/cost/estimate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "plan/cost/busiest.h"
#include "plan/cost/load.h"
#include "plan/cost/walk.h"

namespace weft::cost {
namespace {

using schedule::Plan;
using schedule::Task;

constexpr std::int64_t kWalkBudget = 8000;        // steps of channel 0: about a millisecond
constexpr Rank kSmallestWalk = 2;                 // nodes: walks of at least 2, 4 and 8 stand for more
constexpr std::int64_t kWholeNodeBudget = 50000;  // steps, before nodes of many ranks are made smaller, …
constexpr Rank kMostRanks = 64;                   // … the most ranks that are walked

// All ranks' steps of channel 0, if they are alike.
std::int64_t steps_of(const Task& task, const Plan& plan) {
  std::int64_t n = 0;
  for (int lane = 0; lane < plan.algorithm->lanes; ++lane) {
    auto steps = plan.algorithm->steps(context_of(task, plan, task.ranks / 2, lane, 0));
    while (steps.next() != nullptr) ++n;
  }
  return n * task.ranks;
}

struct Walked {
  double total = 0, latency = 0, work = 0;
};

// A schedule's steps as they load a machine, or a part of it.
struct ExpandedSchedule {
  ExpandedSchedule(const MachineView& machine, const Task& task, const Plan& plan, Spread spread)
      : paths(machine, spread), script(build_script(task, plan, paths)) {}

  Paths paths;
  Script script;
  std::map<int, Shares> shares;                                // by channels at work
  std::map<std::pair<int, protocol::Protocol>, Rounds> empty;  // with empty messages: whatever the sizes
};

// The steps that a doubling of the nodes adds over those that the doubling before added, where the algorithm claims it:
// 2 for linear growth (rings), 1 for logarithmic (trees).
std::optional<double> ratio_of(const Task& task, const Plan& plan) {
  using enum schedule::Growth;
  const schedule::Growth growth = plan.algorithm->growth;
  if (growth == kUnknown || (growth == kPerRow && task.ranks_per_node == 1)) return std::nullopt;
  return growth == kPerDoubling || growth == kPerLevel ? 1 : 2;
}

// A quantity known at N, 2N and 4N nodes, after further doublings. Each doubling adds the last one's growth times
// `claimed`, or if nothing is, the ratio of the last two; where that is nearly 1, what is added grows evenly, as in
// trees whose ranks send to all children in turn. Chains only grow: `least` is 1 for what is a latency; bytes of a rank
// converge.
double extrapolated(double first, double second, double third, double doublings, std::optional<double> claimed,
                    double least) {
  const double before = second - first, last = third - second;
  if (!(last > 0)) return third;
  const double ratio = claimed ? *claimed : before > 0 ? std::clamp(last / before, least, 2.0) : least;
  constexpr double kNearlyOne = 1.4;  // a grid's sides grow by more
  if (ratio >= 1 && ratio < kNearlyOne)
    return third + last * doublings + last * (1 - 1 / ratio) * doublings * (doublings + 1) / 2;
  return third + last * ratio * (std::pow(ratio, doublings) - 1) / (ratio - 1);
}

// Extrapolates the times of three machines, each twice the one before, to further doublings of the third.
Walked extrapolated(const Walked (&at)[3], double doublings, std::optional<double> claimed) {
  const auto part = [&](double least, auto&& of) {
    return extrapolated(of(at[0]), of(at[1]), of(at[2]), doublings, claimed, least);
  };
  Walked result{.work = at[2].work};
  result.latency = part(1, [](const Walked& w) { return w.latency; });
  result.total = result.latency + std::max(0.0, part(0, [](const Walked& w) { return w.total - w.latency; }));
  return result;
}

Task on_nodes(const Task& task, const Plan& plan, Rank nodes, Rank per_node) {
  return schedule::on_fewer_ranks(task, plan, schedule::ranks_on(plan, nodes, per_node));
}

// So many nodes that four times as many are still walked quickly, at least kSmallestWalk: the more, the less is
// guessed.
Rank first_nodes(const Task& task, const Plan& plan, Rank nodes, Rank per_node) {
  Rank first = kSmallestWalk;
  for (Rank next = 2 * first; 8 * next <= nodes; next *= 2) {
    if (steps_of(on_nodes(task, plan, 4 * next, per_node), plan) * plan.channels > kWalkBudget) break;
    first = next;
  }
  return first;
}

// What the nodes' number adds evenly is known from two sizes, of which the larger costs a quarter of the third.
bool known_from_two(const Task& task, const Plan& plan, Rank first, Rank per_node) {
  return ratio_of(task, plan) == 2 && steps_of(on_nodes(task, plan, 4 * first, per_node), plan) > kWholeNodeBudget;
}

}  // namespace

class Estimator::ScheduleCache {
 public:
  ScheduleCache(const MachineView& machine, bool sound) : machine_(machine), sound_(sound) {}

  // All ranks of each of few nodes are walked, or few that are spread over it. Any longer time where it is more than
  // `at_most` seconds.
  Result<Walked> walk_all(const Task& task, const Plan& plan, double at_most) {
    const Rank nodes = schedule::nodes_of(plan, task.ranks, machine_.ranks_per_node(task.ranks));
    const std::int64_t steps = steps_of(task, plan);
    if (steps > kWalkBudget && nodes > kSmallestWalk << 2) return walk_nodes(task, plan, nodes, at_most);
    const Rank per_node = task.ranks / nodes, first = kMostRanks / nodes / 4;
    const bool small = steps <= kWholeNodeBudget || per_node < 8 * first;
    if (small || !machine_.costs().gpu() || plan.nodes != nullptr) return walk(task, plan, {.sound = sound_});
    Walked at[3];
    for (int i = 0; i < 3; ++i) {
      const Spread spread{first << i, per_node};
      Task fewer = schedule::on_fewer_ranks(task, plan, nodes * spread.per_node);
      fewer.ranks_per_node = std::min(task.ranks_per_node, spread.per_node);
      WEFT_TRY(at[i], walk(fewer, plan, spread));
    }
    return extrapolated(at, std::log2(static_cast<double>(per_node) / (4 * first)), std::nullopt);
  }

  const MachineView& machine() const { return machine_; }

 private:
  // All that the steps depend on.
  using Key =
      std::tuple<const schedule::Algorithm*, Rank, Rank, Rank, Spread, bool, bool, bool,
                 std::shared_ptr<const schedule::RingOrders>, std::shared_ptr<const schedule::UnevenNodes>, int, int>;

  // Few nodes for all, but never less than the busiest link of all needs. More nodes never take less.
  Result<Walked> walk_nodes(const Task& task, const Plan& plan, Rank nodes, double at_most) {
    WEFT_TRY(Walked walked, continue_nodes(task, plan, nodes, at_most));
    if (walked.total <= at_most) walked.total = std::max(walked.total, busiest_link(task, plan, walked.total));
    // Where nodes differ, few sound ones were walked; what the others add shows on the links of all.
    if (walked.total <= at_most && !sound_ && !machine_.nodes_alike(task.ranks))
      walked.total = std::max(walked.total, load(task, plan).s());
    return walked;
  }

  Duration load(const Task& task, const Plan& plan) {
    const auto key = std::tuple(plan.algorithm, task.ranks, schedule::busy_channels(task, plan));
    // Of a hundred plans on a hundred thousand ranks only those with few steps are counted; simulate() counts the
    // chosen one's in any case.
    constexpr Rank kLarge = 16384;
    constexpr double kMostSteps = 3e6, kMostOfLarge = 5e5;
    const double most_steps = task.ranks > kLarge ? kMostOfLarge : kMostSteps;
    return loads_.try_emplace(key, machine_, task, plan, most_steps).first->second.least(task, plan);
  }

  double busiest_link(const Task& task, const Plan& plan, double least) {
    Busiest& busiest = busiest_.try_emplace({plan.algorithm, task.ranks}, machine_, task, plan).first->second;
    return busiest.seconds(plan.protocol, schedule::LoweringContext(task, plan).layout.largest_chunk(), least);
  }

  Result<Walked> continue_nodes(const Task& task, const Plan& plan, Rank nodes, double at_most) {
    const Rank per_node = task.ranks / nodes, first = first_nodes(task, plan, nodes, per_node);
    const auto doublings = [&](int from) { return std::log2(static_cast<double>(nodes) / (first << from)); };
    Walked at[3];
    for (int i = 0; i < 3; ++i) {
      if (i == 2 && known_from_two(task, plan, first, per_node))
        return extrapolated({at[0], at[0], at[1]}, doublings(1), 2);
      WEFT_TRY(at[i], walk(on_nodes(task, plan, first << i, per_node), plan,
                           {.sound = sound_ || !machine_.nodes_alike(task.ranks)}));
      if (at[i].total > at_most) return at[i];
    }
    return extrapolated(at, doublings(2), ratio_of(task, plan));
  }

  Result<Walked> walk(const Task& task, const Plan& plan, Spread spread) {
    const Key key{plan.algorithm, task.ranks,  task.ranks_per_node, task.root,
                  spread,         plan.staged, plan.multicast,      plan.aggregation,
                  plan.rings,     plan.nodes,  plan.repeat_limit,   schedule::context_of(task, plan).bundle};
    ExpandedSchedule& expanded = expanded_.try_emplace(key, machine_, task, plan, spread).first->second;
    const int channels = schedule::busy_channels(task, plan);
    const Shares& shares =
        expanded.shares.try_emplace(channels, machine_, task, plan, expanded.paths, channels).first->second;
    WEFT_TRY(const Links links, links_of(machine_, task, plan.protocol, expanded.script, expanded.paths, shares));
    const double rounds = rounds_of_channel(task, plan);
    Rounds& empty = expanded.empty[{channels, plan.protocol}];
    if (static_cast<double>(empty.size()) < std::min<double>(rounds, kWalkedRounds))
      empty = Walk(machine_, task, plan, expanded.script, links, true).run(rounds);
    Walk walk(machine_, task, plan, expanded.script, links, false);
    const double total = std::max(seconds(walk.run(rounds), rounds), rounds * walk.busiest_per_round());
    return Walked{.total = total, .latency = seconds(empty, rounds), .work = walk.work_per_round() * rounds};
  }

  const MachineView& machine_;
  bool sound_;
  std::map<Key, ExpandedSchedule> expanded_;
  std::map<std::pair<const schedule::Algorithm*, Rank>, Busiest> busiest_;
  std::map<std::tuple<const schedule::Algorithm*, Rank, int>, Load> loads_;
};

Estimator::Estimator(const MachineView& machine, bool sound)
    : schedules_(std::make_unique<ScheduleCache>(machine, sound)) {}
Estimator::~Estimator() = default;

Result<Estimate> Estimator::operator()(const Task& task, const Plan& plan, std::optional<Duration> at_most) {
  const Duration* launch = schedules_->machine().costs().launch(plan.protocol);
  if (launch == nullptr)
    return failure(Code::kUnsupported, Blame::kInput, "{} does not exist on this kind of machine",
                   protocol::traits(plan.protocol).name);
  Plan like = plan;  // rounds as large as those of all ranks, not only of those that are walked
  like.most_round = schedule::cut_of(task, plan).round;
  const Duration start = *launch + plan.staging;
  const double most = at_most ? (*at_most - start).s() : HUGE_VAL;
  WEFT_TRY(const Walked walked, schedules_->walk_all(task, like, most));
  return Estimate{.total = start + Duration::seconds(walked.total),
                  .launch = start,
                  .latency = start + Duration::seconds(walked.latency),
                  .work = start + Duration::seconds(walked.work)};
}

Result<Estimate> estimate(const MachineView& machine, const Task& task, const Plan& plan) {
  return Estimator(machine)(task, plan);
}

}  // namespace weft::cost
