#include "plan/tune/tune.h"

#include <algorithm>
#include <climits>

#include "base/text.h"
#include "plan/collectives/registry.h"
#include "plan/tune/rings.h"

namespace weft::tune {
namespace {

using protocol::Protocol;

// Why the algorithm cannot serve here at all; empty: it can.
std::string obstacle(const Question& q, const schedule::Algorithm& algorithm) {
  if (const auto& written = algorithm.written_for) {
    if (written->ranks != q.task.ranks)
      return fmt::format("is written for {} ranks, not for {}", written->ranks, q.task.ranks);
    if (schedule::rooted(algorithm.collective) && written->root != q.task.root)
      return fmt::format("is written for root {}", written->root);
    if (algorithm.needs.memory() && !q.registered) return "needs memory that peers reach (weft::alloc)";
  }
  if (algorithm.needs.memory() && !q.can.load_store) return "ranks cannot load and store each other's memory here";
  // Emulated, a switch is only other ranks' work: never a choice, but it can be tried for real.
  // Simulated, a group of one rank needs no switch: messages are for the network's only where there is one.
  const bool crosses = q.task.ranks_per_node < q.task.ranks || !q.can.virtual_time;
  const bool tried = !q.algorithm.empty() && !q.can.virtual_time;
  if (algorithm.needs.multicast && !q.can.multicast && !tried) return "no switch inside a node sums (NVLS)";
  if (algorithm.needs.aggregation && crosses && !q.can.aggregation && !tried)
    return "no switch of the network sums (SHARP)";
  const bool reduces = schedule::reduces(q.task.collective);
  if (algorithm.needs.multicast && reduces && !q.nvswitch_combines && !tried)
    return "NVSwitches do not combine this type by this operation";
  if (algorithm.needs.aggregation && crosses && reduces && !q.sharp_combines && !tried)
    return "the network's switches do not combine this type by this operation";
  if (q.task.collective == Collective::kAllToAllV && !algorithm.uneven)
    return "passes on parts whose sizes only their senders and receivers know";
  if (q.in_order && !algorithm.in_order) return "does not sum in rank order, which reproducible results need";
  return "";
}

// How channels pass through the machine's nodes, where that is more than by number.
struct Ways {
  std::shared_ptr<const schedule::RingOrders> rings;
  std::shared_ptr<const schedule::UnevenNodes> nodes;

  // Channels that use all ways equally; 0: any number.
  int equally() const {
    return static_cast<int>(rings != nullptr ? rings->size() : nodes != nullptr ? nodes->common.size() : 0);
  }
};

schedule::Plan plan_of(const Question& q, const schedule::Algorithm& algorithm, Protocol protocol, int channels,
                       const Ways& ways) {
  schedule::Plan plan = schedule::make_plan(q.task, algorithm, protocol, channels, q.can, q.registered);
  plan.rings = ways.rings;
  plan.nodes = ways.nodes;
  plan.staging = q.staging;
  // Whole lines, at least one.
  constexpr Bytes kLine = 64;
  if (q.slice > 0 && plan.slice_bytes > 0)
    plan.slice_bytes = std::min(std::max(q.slice / kLine, Bytes{1}) * kLine, q.can.slot_data(protocol));
  if (q.most_slice > 0 && plan.slice_bytes > 0 && protocol == Protocol::kSimple)
    plan.slice_bytes = std::min(plan.slice_bytes, std::max(q.most_slice / kLine, Bytes{1}) * kLine);
  return plan;
}

// Parallel channels help where one channel cannot fill a link. A CPU rank has one core: it has nothing to fill in
// parallel.
std::vector<int> channel_counts(const cost::MachineView& machine, const Question& q, int connections,
                                const Ways& ways) {
  if (q.channels > 0) return {q.channels};
  const int most = q.most_channels > 0 ? q.most_channels : INT_MAX,
            least = std::min(std::max(1, q.least_channels), most);
  if (!machine.costs().gpu()) return {least};
  std::vector<int> counts{1, 2, 4, 8, 16};
  for (const int times : {1, 2})
    if (ways.equally() > 0) counts.push_back(times * ways.equally());
  for (int& count : counts) count = std::clamp(count, least, most);
  std::ranges::sort(counts);
  counts.erase(std::ranges::unique(counts).begin(), counts.end());
  std::erase_if(counts, [&](int c) { return c * connections > q.can.max_strands; });
  return counts;
}

// The plan, and the same with larger slices: of these hops overlap less, but where a channel rests after every message
// it rests less often. What the question says of slices holds.
std::vector<schedule::Plan> slicings(const cost::MachineView& machine, const Question& q, const schedule::Plan& plan) {
  std::vector<schedule::Plan> all{plan};
  if (!machine.costs().gpu() || plan.protocol != Protocol::kSimple || q.slice > 0) return all;
  Bytes most = std::min(q.can.slot_data(plan.protocol), schedule::cut_of(q.task, plan).piece);
  if (q.most_slice > 0) most = std::min(most, q.most_slice);
  for (Bytes slice = 2 * plan.slice_bytes; slice <= most; slice *= 2) {
    all.push_back(plan);
    all.back().slice_bytes = slice;
  }
  return all;
}

// The plan with slices half as large, if that is useful on GPUs: more hops overlap. NCCL's smallest
// chunks are 32 KiB: src/enqueue.cc of 2.30.7, of trees by LL128 and through NVLS.
std::optional<schedule::Plan> halved(const cost::MachineView& machine, const Question& q, const schedule::Plan& plan) {
  constexpr Bytes kLeast = Bytes{32} << 10;
  constexpr Rank kMostRanks = 1024;  // beyond, one simulation would take minutes
  const bool may = plan.protocol == Protocol::kSimple || plan.protocol == Protocol::kLL128;
  if (!machine.costs().gpu() || !may || q.task.ranks > kMostRanks || q.slice > 0) return std::nullopt;
  if (q.task.collective == Collective::kAllToAllV) return std::nullopt;
  const Bytes slice = std::min(plan.slice_bytes, schedule::cut_of(q.task, plan).piece);
  if (slice <= kLeast) return std::nullopt;
  schedule::Plan half = plan;
  half.slice_bytes = std::max(kLeast, slice / 2);
  return half;
}

// True if back-to-back calls overlap: data of a rooted collective flows one way and crosses for as many calls at once
// as messages may be under way, so that CPU ranks wait less for each other, and for the scheduler where they share
// cores.
bool calls_overlap(const cost::MachineView& machine, const Question& q) {
  return schedule::rooted(q.task.collective) && !machine.costs().gpu() && !q.can.virtual_time &&
         (q.can.load_store || machine.sharing(q.task.ranks) > 1);
}

// The time of one of many back-to-back calls. A scheduling round of ranks that share a core costs more than its context
// switches: caches are cold, and polls find nothing.
Duration back_to_back(const cost::MachineView& machine, const Question& q, const schedule::Plan& plan,
                      const cost::Estimate& estimate) {
  const protocol::HopCosts::Factors& factors = machine.costs().factors();
  // Algorithms that load and store peers' memory wait until all readers are done, so that their calls do not overlap.
  if (!calls_overlap(machine, q) || plan.algorithm->needs.memory()) return estimate.total;
  const Bytes message = std::min(q.can.slot_data(plan.protocol), schedule::cut_of(q.task, plan).piece);
  // Bytes in the kernel's buffers cross meanwhile; a rank that copies through shared memory works for every byte.
  const Duration waiting = (q.can.load_store ? estimate.latency : estimate.total) - estimate.launch;
  const auto calls = static_cast<double>(q.can.under_way(plan.protocol, message));
  const double waits =
      machine.sharing(q.task.ranks) > 1 ? std::min(1.0, factors.scheduling_round / calls) : factors.exposed_hop;
  // Every core has its ranks' work to do for each call, however many are under way.
  return std::min(estimate.total, estimate.work + waiting * waits);
}

// Plans that are kept besides the best one: those that take at most `slack` times as long as it.
struct Kept {
  double slack = 1;
  std::vector<Candidate> plans = {};
};

// A pruned search: plans slower than `at_most` may come back unoptimised and with an over-estimated time. `kept`: gets
// all plans that may take at most its slack times as long as `at_most` and the best one, if given.
Candidate best_plan(const cost::MachineView& machine, cost::Estimator& estimate, const Question& q,
                    const schedule::Algorithm& algorithm, Protocol protocol, const Ways& ways,
                    std::optional<Duration> at_most, Kept* kept) {
  Candidate best;
  const int connections = algorithm.connections_of_channel();
  const bool too_many = std::int64_t{std::max(1, q.channels)} * connections > q.can.max_strands;
  best.plan = plan_of(q, algorithm, protocol, too_many ? 1 : std::max(1, q.channels), ways);
  if (too_many) {
    best.reason = fmt::format("{} channels of {} connections are more than the fabric's {}", std::max(1, q.channels),
                              connections, q.can.max_strands);
    return best;
  }
  best.reason = obstacle(q, algorithm);
  if (!best.reason.empty()) return best;
  // Many channels come first: where there is much to move, few exceed `at_most` early.
  std::vector<int> counts = channel_counts(machine, q, connections, ways);
  std::ranges::reverse(counts);
  for (const int channels : counts) {
    const schedule::Plan plan = plan_of(q, algorithm, protocol, channels, ways);
    if (const schedule::Cut cut = schedule::cut_of(q.task, plan); cut.piece > 0 && cut.round == 0) {
      if (!best.possible) best.reason = "slots or scratch are too small for this number of ranks";
      continue;
    }
    // Returns the plan's time.
    const auto consider = [&](const schedule::Plan& sliced) -> Result<Duration> {
      // The software aggregator is not in the topology; its cost is that of the messages that it replaces.
      schedule::Plan costed = sliced;
      costed.aggregation &= q.can.virtual_time;
      const auto worth = kept != nullptr && at_most ? std::optional(*at_most * kept->slack) : at_most;
      WEFT_TRY(const cost::Estimate estimated, estimate(q.task, costed, worth));
      if (kept != nullptr && (!worth || estimated.total <= *worth))
        kept->plans.push_back(
            {.plan = sliced, .estimate = estimated, .back_to_back = estimated.total, .possible = true});
      const bool fewer = channels < best.plan.channels;  // of several that take as long
      if (!best.possible || estimated.total < best.estimate.total ||
          (fewer && estimated.total == best.estimate.total)) {
        best.plan = sliced;
        best.estimate = estimated;
        best.back_to_back = back_to_back(machine, q, sliced, estimated);
        at_most = std::min(at_most.value_or(best.estimate.total), best.estimate.total);
      }
      best.possible = true;
      return estimated.total;
    };
    std::optional<Duration> time;  // of the first slicing
    for (const schedule::Plan& sliced : slicings(machine, q, plan)) {
      const auto taken = consider(sliced);
      if (!taken) {
        best.reason = taken.error().message;
        return best;
      }
      if (!time) time = *taken;
    }
    // Smaller slices, as long as they help; not of what is far behind, which they gain some times at the most.
    constexpr double kFarBehind = 4;
    if (at_most && *time > *at_most * kFarBehind) continue;
    for (auto half = halved(machine, q, plan); half; half = halved(machine, q, *half)) {
      const auto taken = consider(*half);
      if (!taken || *taken >= *time) break;
      time = *taken;
    }
  }
  return best;
}

// Latency is what an empty message would take; the rest is transfer.
std::string parts(const cost::Estimate& e) {
  return fmt::format("{} latency + {} transfer", format_duration(e.latency), format_duration(e.total - e.latency));
}

// The time that candidates are compared by: of back-to-back calls and, where two are equally fast, of one call alone.
Duration ranking_time(const Candidate& c) {
  constexpr double kCallAlone = 0.02;  // decides between calls that are equal back to back, and little else
  return c.back_to_back + (c.estimate.total - c.back_to_back) * kCallAlone;
}

std::string why_lost(const Candidate& loser, const Candidate& winner) {
  if (loser.estimate.total < winner.estimate.total)
    return fmt::format("{} for one call, but {}: {} back to back", format_duration(loser.estimate.total),
                       loser.plan.algorithm->needs.memory() ? "ranks wait until others have read their memory"
                                                            : "fewer are under way at once",
                       format_duration(loser.back_to_back));
  const Duration latency = loser.estimate.latency - winner.estimate.latency;
  const Duration transfer =
      (loser.estimate.total - loser.estimate.latency) - (winner.estimate.total - winner.estimate.latency);
  const std::string_view cause = latency > transfer ? "latency" : "transfer";
  return fmt::format("{:.2f}x slower, mostly by {}: {}", loser.estimate.total / winner.estimate.total, cause,
                     parts(loser.estimate));
}

std::string why_chosen(const Candidate& winner) {
  if (winner.back_to_back == winner.estimate.total) return "fastest: " + parts(winner.estimate);
  return fmt::format("fastest back to back: {} each; one call {}", format_duration(winner.back_to_back),
                     parts(winner.estimate));
}

// The fastest first, the impossible last. `only_the_fastest`: of the others neither plan nor time need be right.
Result<std::vector<Candidate>> ranked(const cost::MachineView& machine, const Question& q, bool only_the_fastest,
                                      Kept* kept = nullptr) {
  std::vector<const schedule::Algorithm*> algorithms = collectives::algorithms_for(q.task.collective);
  if (!q.algorithm.empty()) {
    WEFT_TRY(const auto* forced, collectives::find_algorithm(q.task.collective, q.algorithm));
    algorithms = {forced};
  }
  std::vector<Protocol> protocols(std::begin(protocol::kProtocols), std::end(protocol::kProtocols));
  if (!q.protocol.empty()) {
    WEFT_TRY(const Protocol forced, protocol::parse_protocol(q.protocol));
    protocols = {forced};
  }
  if (q.algorithm.empty())
    std::erase_if(algorithms, [&](const schedule::Algorithm* a) { return !q.algorithms.allows(a->name); });
  if (q.protocol.empty())
    std::erase_if(protocols, [&](Protocol p) { return !q.protocols.allows(protocol::traits(p).name); });
  std::vector<Candidate> all;
  // Over a network without switches that reduce, doing their part in software is never wanted unless asked for.
  const bool asked_for = !q.algorithm.empty() || (q.algorithms.limits() && !q.algorithms.all_but);
  if (!asked_for && machine.costs().network() && !(q.can.aggregation && q.can.virtual_time))
    std::erase_if(algorithms, [](const schedule::Algorithm* a) { return a->needs.aggregation || a->needs.multicast; });
  const Ways ways{ring_orders(machine, q.task.ranks), uneven_nodes(machine, q.task.ranks)};
  const bool bounded = only_the_fastest && !calls_overlap(machine, q);  // by the time of one call
  std::optional<Duration> at_most;
  for (const schedule::Algorithm* algorithm : algorithms) {
    cost::Estimator estimate(machine);
    for (const Protocol protocol : protocols)
      if (schedule::fits(*algorithm, protocol) && machine.costs().launch(protocol) != nullptr) {
        all.push_back(best_plan(machine, estimate, q, *algorithm, protocol, ways, at_most, kept));
        if (const Candidate& c = all.back(); bounded && c.possible)
          at_most = std::min(at_most.value_or(ranking_time(c)), ranking_time(c));
      }
  }
  if (all.empty() && (q.algorithms.limits() || q.protocols.limits()))
    return bad_input("{} is not done by algorithms {} with protocols {} on this machine",
                     schedule::name(q.task.collective), q.algorithms.limits() ? q.algorithms.text() : "of any name",
                     q.protocols.limits() ? q.protocols.text() : "of any name");
  if (all.empty()) {
    const std::string what = q.algorithm.empty() ? "no algorithm runs" : "algorithm '" + q.algorithm + "' does not run";
    return bad_input("{} with {} on this machine", what,
                     q.protocol.empty() ? "any protocol" : "protocol '" + q.protocol + "'");
  }
  std::stable_sort(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) {
    return a.possible != b.possible ? a.possible : a.possible && ranking_time(a) < ranking_time(b);
  });
  return all;
}

Status check_possible(const Question& q, const Candidate& winner) {
  if (winner.possible) return {};
  return failure(Code::kUnsupported, Blame::kInput, "algorithm '{}': {}",
                 q.algorithm.empty() ? std::string(winner.plan.algorithm->name) : q.algorithm, winner.reason);
}

}  // namespace

Result<std::vector<Candidate>> candidates(const cost::MachineView& machine, const Question& question) {
  WEFT_TRY(auto all, ranked(machine, question, false));
  Candidate& winner = all.front();
  winner.chosen = winner.possible;
  for (Candidate& c : all) {
    if (!c.possible) continue;
    c.reason = c.chosen ? why_chosen(c) : why_lost(c, winner);
  }
  return all;
}

Result<std::vector<Candidate>> plans(const cost::MachineView& machine, const Question& question, double slack) {
  Kept kept{.slack = slack};
  WEFT_TRY(const auto all, ranked(machine, question, true, &kept));
  WEFT_CHECK(check_possible(question, all.front()));
  const Duration most = all.front().estimate.total * slack;
  std::erase_if(kept.plans, [&](const Candidate& c) { return c.estimate.total > most; });
  // Of several that take as long, fewer channels, as choose has it.
  std::ranges::stable_sort(kept.plans, [](const Candidate& a, const Candidate& b) {
    return std::pair(a.estimate.total, a.plan.channels) < std::pair(b.estimate.total, b.plan.channels);
  });
  return std::move(kept.plans);
}

Result<Candidate> choose(const cost::MachineView& machine, const Question& question) {
  WEFT_TRY(auto all, ranked(machine, question, true));
  Candidate& winner = all.front();
  WEFT_CHECK(check_possible(question, winner));
  winner.chosen = true;
  winner.reason = why_chosen(winner);
  return std::move(winner);
}

}  // namespace weft::tune
