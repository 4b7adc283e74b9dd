// What the chooser believes of plans, against what cannot be quicker and against the simulator: on machines that are
// walked, and on those whose time is extrapolated from smaller ones.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <map>

#include "machine/machine.h"
#include "model/sim/flow/flow_fabric.h"
#include "model/simulate/faults.h"
#include "model/simulate/simulate.h"
#include "plan/collectives/registry.h"
#include "plan/cost/estimate.h"
#include "plan/cost/limit.h"
#include "plan/cost/shipped.h"

namespace weft {
namespace {

using protocol::Protocol;
using schedule::Operand;
using schedule::Plan;
using schedule::Step;
using schedule::Task;

constexpr Bytes kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;

cost::MachineView nodes_of_h100(int nodes) {
  return cost::shipped_view(topology::load_machine(fmt::format("dgx-h100:nodes={},net=ib-ndr", nodes)).value()).value();
}

Task task_of(const cost::MachineView& machine, Collective collective, Bytes bytes) {
  const Rank ranks = machine.endpoints();
  return {.collective = collective,
          .ranks = ranks,
          .ranks_per_node = machine.ranks_per_node(ranks),
          .elements = std::max<Bytes>(bytes / 4, ranks),
          .element_bytes = 4};
}

Plan plan_of(const cost::MachineView& machine, const Task& task, const schedule::Algorithm& algorithm,
             Protocol protocol, int channels) {
  return make_plan(task, algorithm, protocol, channels, sim::flow_capabilities(machine.topology(), 64), true);
}

// The longest chain of messages that wait for each other, each with nothing but its latency.
class LongestChain {
 public:
  LongestChain(const cost::MachineView& machine, Protocol protocol) : machine_(machine), protocol_(protocol) {}

  double seconds(const schedule::Algorithm& algorithm, schedule::RankContext context) {
    strands_.clear();
    arrivals_.clear();
    for (context.rank = 0; context.rank < context.ranks; ++context.rank)
      for (context.lane = 0; context.lane < algorithm.lanes; ++context.lane) {
        strands_.push_back({context.rank, context.lane, 0, algorithm.steps(context), nullptr});
        strands_.back().step = strands_.back().steps.next();
      }
    for (bool moved = true; moved;) {
      moved = false;
      for (Strand& s : strands_)
        for (; s.step != nullptr && take(s); s.step = s.steps.next()) moved = true;
    }
    double longest = 0;
    for (const Strand& s : strands_) {
      EXPECT_EQ(s.step, nullptr) << algorithm.name;
      longest = std::max(longest, s.time);
    }
    return longest;
  }

 private:
  struct Strand {
    Rank rank;
    int lane;
    double time;
    Generator<Step> steps;
    const Step* step;
  };
  using Connection = std::array<int, 4>;  // message or signal, from, to, lane

  bool take(Strand& s) {
    const Step& step = *s.step;
    const auto lane = [&](const Operand& o) { return o.lane == Operand::kSameLane ? s.lane : o.lane; };
    if (step.kind == Step::Kind::kSignal) {
      const bool own = step.lane != Operand::kSameLane;
      send(own ? Connection{1, s.rank, s.lane, step.lane} : Connection{2, s.rank, step.peer, s.lane},
           s.time + (own ? 0 : latency(s.rank, step.peer)));
      return true;
    }
    if (step.kind == Step::Kind::kWait)
      return receive(step.lane != Operand::kSameLane ? Connection{1, s.rank, step.lane, s.lane}
                                                     : Connection{2, step.peer, s.rank, s.lane},
                     true, s.time);
    for (const Operand& o : step.sources)
      if (o.message() && arrivals_[{0, o.peer, s.rank, lane(o)}].empty()) return false;
    for (const Operand& o : step.sources)
      if (o.message()) receive({0, o.peer, s.rank, lane(o)}, !o.open, s.time);
    for (const Operand& o : step.destinations)
      if (o.message() && !o.open) send({0, s.rank, o.peer, lane(o)}, s.time + latency(s.rank, o.peer));
    return true;
  }
  void send(const Connection& c, double at) { arrivals_[c].push_back(at); }
  bool receive(const Connection& c, bool last, double& time) {
    auto& queue = arrivals_[c];
    if (queue.empty()) return false;
    time = std::max(time, queue.front());
    if (last) queue.pop_front();
    return true;
  }
  double latency(Rank from, Rank to) {
    const auto [at, added] = latencies_.try_emplace({from, to});
    if (!added) return at->second;
    const topology::Path path = machine_.path(from, to);
    const protocol::HopCost* hop = machine_.costs().find(name(path.type), protocol_);
    return at->second = hop != nullptr && from != to ? machine_.costs().latency(*hop, path.latency, 1).s() : 0;
  }

  const cost::MachineView& machine_;
  Protocol protocol_;
  std::vector<Strand> strands_;
  std::map<Connection, std::deque<double>> arrivals_;
  std::map<std::pair<Rank, Rank>, double> latencies_;
};

class Estimates : public testing::TestWithParam<int> {};

// Machines are extrapolated from nodes that are near each other; switches between more distant ones take a tenth of a
// hop. Where no algorithm claims how its time grows, that is a guess besides.
double part_of(const schedule::Algorithm& a) { return a.growth == schedule::Growth::kUnknown ? 0.75 : 0.9; }

TEST_P(Estimates, AreNeverBelowTheLongestChainNorTheLimit) {
  constexpr std::int64_t kMostSteps = 40'000;
  const cost::MachineView machine = nodes_of_h100(GetParam());
  int count = 0;
  for (const Protocol protocol : {Protocol::kLL, Protocol::kSimple}) {
    LongestChain chain(machine, protocol);
    for (const schedule::Algorithm& a : collectives::algorithms()) {
      if (a.needs.multicast || a.needs.aggregation || !a.needs.messages || schedule::uneven(a.collective) ||
          a.collective == Collective::kBarrier)
        continue;
      const Task task = task_of(machine, a.collective, 64 * kMiB);
      const Plan first = plan_of(machine, task, a, protocol, 1);
      schedule::RankContext context = context_of(task, first);
      context.rank = task.ranks / 2;
      std::int64_t steps = 0;
      for (auto step = a.steps(context); step.next() != nullptr;) ++steps;
      if (steps * task.ranks > kMostSteps) continue;
      std::map<int, double> longest;  // by how many chunks fit into a message
      for (const Bytes bytes : {4 * kKiB, 64 * kMiB})
        for (const int channels : {1, 8}) {
          const Task sized = task_of(machine, a.collective, bytes);
          const Plan plan = plan_of(machine, sized, a, protocol, channels);
          if (cut_of(sized, plan).round == 0) continue;
          context.bundle = context_of(sized, plan).bundle;
          if (!longest.contains(context.bundle)) longest[context.bundle] = chain.seconds(a, context);
          const auto estimate = cost::estimate(machine, sized, plan);
          ASSERT_TRUE(estimate) << a.name << ": " << estimate.error().message;
          const std::string what = fmt::format("{} {} {} {} B, {} channels", schedule::name(a.collective), a.name,
                                               protocol::traits(protocol).name, bytes, channels);
          EXPECT_GE((estimate->total - estimate->launch).s(), part_of(a) * longest[context.bundle]) << what;
          EXPECT_GE(estimate->total.s(), part_of(a) * cost::limit(machine, sized).time.s()) << what;
          ++count;
        }
    }
  }
  EXPECT_GE(count, 60);
}

INSTANTIATE_TEST_SUITE_P(Nodes, Estimates, testing::Values(2, 8, 64));

// 16,384 nodes: a chain passes from node to node 16,383 times, and seven times through each.
TEST(Estimates, OfChainsThroughManyNodesHaveTheirLatency) {
  const cost::MachineView machine = nodes_of_h100(16384);
  for (const Collective collective : {Collective::kBroadcast, Collective::kReduce})
    for (const Protocol protocol : {Protocol::kLL, Protocol::kSimple}) {
      const auto latency = [&](Rank to) {
        const topology::Path path = machine.path(0, to);
        return machine.costs().latency(*machine.costs().find(name(path.type), protocol), path.latency, 1);
      };
      const Duration chain = latency(8) * 16383 + latency(1) * (7 * 16384);
      for (const Bytes bytes : {4 * kKiB, 4 * kGiB}) {
        const Task task = task_of(machine, collective, bytes);
        const auto* ring = collectives::find_algorithm(collective, "ring").value();
        const auto estimate = cost::estimate(machine, task, plan_of(machine, task, *ring, protocol, 16)).value();
        EXPECT_GE(estimate.latency, chain * 0.97);  // nodes at the ends of a chain have fewer hops
        EXPECT_LE(estimate.latency, chain * 1.5) << "what channels post after each other";
      }
    }
}

// 16,383 nodes of eight send the root a message each rank, which keep it busy one after the other.
TEST(Estimates, OfGathersAndScattersCountTheRootsMessages) {
  const cost::MachineView machine = nodes_of_h100(16384);
  const Duration each = machine.costs().find("NET", Protocol::kLL)->overhead;
  for (const Collective collective : {Collective::kGather, Collective::kScatter})
    for (const int channels : {1, 8}) {
      const Task task = task_of(machine, collective, Bytes{64} * 131072 * channels);
      const auto* spread = collectives::find_algorithm(collective, "spread").value();
      const auto estimate = cost::estimate(machine, task, plan_of(machine, task, *spread, Protocol::kLL, channels));
      EXPECT_NEAR(estimate->latency / (each * channels * (16383 * 8)), 1, 0.01) << schedule::name(collective);
    }
}

struct Compared {
  Collective collective;
  const char* algorithm;
  Protocol protocol;
  int most_nodes;  // more take long to simulate
};

// What estimate and simulator may disagree by: shares that change over time and ways that collide are the simulator's.
constexpr double kFactor = 1.8, kMeanFactor = 1.12;

TEST(EstimateAndSimulation, AgreeOnManyAlgorithmsSizesAndMachines) {
  using enum Collective;
  using enum Protocol;
  const std::vector<Compared> all{
      {kAllReduce, "ring", kSimple, 64},
      {kAllReduce, "tree", kLL, 64},
      {kAllReduce, "coll_tree", kLL128, 64},
      {kAllReduce, "recursive_doubling", kLL, 64},
      {kAllReduce, "hierarchical", kSimple, 64},
      {kAllReduce, "mesh", kLL, 64},
      {kAllReduce, "torus2d", kSimple, 8},
      {kAllReduce, "nvls_tree", kSimple, 64},
      {kAllGather, "ring", kLL, 64},
      {kAllGather, "recursive_doubling", kLL, 64},
      {kAllGather, "bruck", kSimple, 64},
      {kAllGather, "pat", kLL, 64},
      {kReduceScatter, "recursive_halving", kSimple, 64},
      {kReduceScatter, "pat", kSimple, 64},
      {kBroadcast, "ring", kSimple, 256},
      {kBroadcast, "binomial", kLL, 256},
      {kReduce, "ring", kLL, 256},
      {kReduce, "binomial", kSimple, 256},
      {kGather, "spread", kLL, 256},
      {kGather, "binomial", kLL, 64},
      {kScatter, "spread", kSimple, 256},
      {kScatter, "binomial", kSimple, 64},
      {kAllToAll, "spread", kSimple, 8},
      {kAllToAll, "pairwise", kLL, 64},
      {kAllToAll, "bruck", kLL, 64},
  };
  double sum = 0;
  int count = 0;
  for (const int nodes : {2, 8, 64, 256}) {
    const cost::MachineView machine = nodes_of_h100(nodes);
    for (const Compared& c : all)
      for (const Bytes bytes : {4 * kKiB, kMiB, kGiB}) {
        if (nodes > c.most_nodes || (bytes == kGiB && nodes > 8)) continue;
        const Task task = task_of(machine, c.collective, bytes);
        const auto* algorithm = collectives::find_algorithm(c.collective, c.algorithm).value();
        const Plan plan = plan_of(machine, task, *algorithm, c.protocol, 2);
        if (cut_of(task, plan).round == 0) continue;
        const auto estimate = cost::estimate(machine, task, plan);
        const auto simulated = simulate::simulate(machine, task, plan, {});
        ASSERT_TRUE(estimate && simulated) << c.algorithm;
        const double factor = estimate->total / simulated->time;
        EXPECT_LT(std::max(factor, 1 / factor), kFactor)
            << schedule::name(c.collective) << " " << c.algorithm << " " << protocol::traits(c.protocol).name << " on "
            << nodes << " nodes, " << bytes << " B: " << factor;
        sum += std::abs(std::log(factor));
        ++count;
      }
  }
  EXPECT_GE(count, 150);
  EXPECT_LT(std::exp(sum / count), kMeanFactor);
}

// The time of a schedule that grows evenly with the nodes is extrapolated from two and four nodes of many steps.
// The cost model walks channel 0; a NIC that only another channel uses bounds the call all the same.
TEST(EstimateAndSimulation, AgreeOnTreesOfWhichOneChannelHasASlowNic) {
  const auto healthy = nodes_of_h100(8);
  for (const char* fault : {"nic:1/2=25%", "nic:5/5=25%"}) {
    const auto faulted = simulate::apply_faults(healthy.topology(), std::vector<std::string>{fault}).value();
    const cost::MachineView machine(faulted.machine, healthy.costs());
    const Task task = task_of(machine, Collective::kAllReduce, 64 * kMiB);
    const auto& tree = **collectives::find_algorithm(Collective::kAllReduce, "tree");
    const Plan plan = plan_of(machine, task, tree, Protocol::kLL128, 8);
    const Duration found = simulate::simulate(machine, task, plan, {}).value().time;
    const double ratio = cost::estimate(machine, task, plan)->total / found;
    EXPECT_GT(ratio, 0.6) << fault;  // 0.3 where only channel 0's links count; messages also wait for each other
    EXPECT_LT(ratio, 1.1) << fault;
  }
}

TEST(EstimateAndSimulation, AgreeOnRingsThroughNodesOfManyRanks) {
  const cost::MachineView machine = cost::shipped_view(topology::load_machine("gb200-nvl72:nodes=12").value()).value();
  const Task task = task_of(machine, Collective::kAllReduce, 64 * kMiB);
  const auto* ring = collectives::find_algorithm(Collective::kAllReduce, "ring").value();
  for (const Protocol protocol : {Protocol::kLL, Protocol::kSimple}) {
    const Plan plan = plan_of(machine, task, *ring, protocol, 16);
    const auto estimate = cost::estimate(machine, task, plan);
    const auto simulated = simulate::simulate(machine, task, plan, {});
    ASSERT_TRUE(estimate && simulated);
    EXPECT_NEAR(estimate->total / simulated->time, 1, 0.05) << protocol::traits(protocol).name;
  }
}

// One estimator for plans that differ in protocol, channels and slices says of each what a new one says.
TEST(Estimator, ToldOnceSaysWhatToldAnewSays) {
  const cost::MachineView machine = nodes_of_h100(4);
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllToAll})
    for (const schedule::Algorithm* a : collectives::algorithms_for(collective)) {
      if (a->needs.multicast || a->needs.aggregation || !a->needs.messages) continue;
      cost::Estimator told_once(machine);
      for (const Bytes bytes : {4 * kKiB, 64 * kMiB})
        for (const Protocol protocol : {Protocol::kSimple, Protocol::kLL})
          for (const int channels : {1, 3, 8}) {
            const Task task = task_of(machine, collective, bytes);
            const Plan plan = plan_of(machine, task, *a, protocol, channels);
            const auto again = told_once(task, plan), anew = cost::estimate(machine, task, plan);
            ASSERT_TRUE(again && anew) << a->name;
            EXPECT_EQ(again->total, anew->total) << a->name << " " << bytes << " B, " << channels << " channels";
            EXPECT_EQ(again->latency, anew->latency) << a->name;
          }
    }
}

}  // namespace
}  // namespace weft
