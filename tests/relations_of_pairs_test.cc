// Relations between two simulations: numbers and files that must not matter, losses that must cost, levels that must
// agree, intervals that must cover.
#include <algorithm>
#include <memory>
#include <numeric>

#include "plan/cost/limit.h"
#include "plan/schedule/exchange/written.h"
#include "relations.h"

namespace weft {
namespace {

// The same machine with its nodes numbered otherwise, its devices and links listed in another order, and links given by
// either end.
topology::Topology renumbered(const topology::Topology& machine, std::mt19937_64& random) {
  std::vector<std::int32_t> node(static_cast<std::size_t>(machine.nodes()));
  std::iota(node.begin(), node.end(), 0);
  std::ranges::shuffle(node, random);
  std::vector<topology::DeviceId> order(machine.devices().size()), now(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  topology::Topology other;
  other.title = machine.title;
  other.routing = machine.routing;
  for (const topology::DeviceId id : order) {
    topology::Device device = machine.device(id);
    if (device.node >= 0) device.node = node[static_cast<std::size_t>(device.node)];
    now[static_cast<std::size_t>(id)] = other.add(device);
  }
  std::vector<topology::Link> links(machine.links().begin(), machine.links().end());
  std::ranges::shuffle(links, random);
  for (topology::Link link : links) {
    link.a = now[static_cast<std::size_t>(link.a)];
    link.b = now[static_cast<std::size_t>(link.b)];
    if (random() % 2 == 0) {
      std::swap(link.a, link.b);
      std::swap(link.rate_ab, link.rate_ba);
    }
    other.connect(link);
  }
  return other;
}

// Relation 1. A ring and an exchange of all with all pass every node alike, so that they cost the same whatever the
// nodes' numbers and the order in which a file lists devices and links; with a slow link as well.
TEST_F(Relations, NumbersOfNodesAndDevicesDoNotMatter) {
  constexpr Case kAlike[] = {{"ring", Collective::kAllReduce, Protocol::kSimple},
                             {"ring", Collective::kAllGather, Protocol::kLL128},
                             {"spread", Collective::kAllToAll, Protocol::kSimple}};
  for (int i = 0; i < 2 * machines_; ++i) {
    const Made made = machine();
    const Case& c = kAlike[below(static_cast<int>(std::size(kAlike)))];
    const int channels = 1 << below(5), node = below(made.healthy.nodes());
    const Bytes size = bytes();
    const simulate::Faulted faulted =
        made.with(i % 2 == 0 ? std::vector{nic_link(made, node) + "=50%"} : std::vector<std::string>{});
    const auto time_on = [&](topology::Topology topology) {
      const cost::MachineView view = cost::shipped_view(std::move(topology)).value();
      const Task task = task_on(view, c.collective, size);
      const Plan plan = plan_on(view, task, c, channels);
      return std::pair(simulate::simulate(view, task, plan, {}).value().time.s(), cost::limit(view, task).time.s());
    };
    const auto [time, limit] = time_on(faulted.machine);
    const auto [other_time, other_limit] = time_on(renumbered(faulted.machine, random_));
    EXPECT_NEAR(other_time / time, 1, kSame) << made.name << ", " << c.algorithm << ", " << size << " B, x" << channels
                                             << (i % 2 == 0 ? ", slow link of node " : ", healthy; not node ") << node;
    EXPECT_NEAR(other_limit / limit, 1, 1e-9) << made.name;
  }
}

// Relation 9: an algorithm and the file that its schedule is written to.
TEST_F(Relations, AFileTakesAsLongAsItsAlgorithm) {
  int compared = 0;
  for (int i = 0; i < 2 * machines_; ++i) {
    const Made made = machine();
    const Asked asked(made.with({}));
    const Case& c = one_case();
    const Task task = task_on(asked.view, c.collective, bytes());
    const auto& algorithm = **collectives::find_algorithm(c.collective, c.algorithm);
    const auto document = std::make_shared<schedule::Document>(
        schedule::Document{.name = c.algorithm,
                           .schedule = schedule::write_out(
                               algorithm, {.ranks = task.ranks, .ranks_per_node = task.ranks_per_node, .staged = true}),
                           .in_place = schedule::may_be_in_place(c.collective),
                           .origins = {}});
    const schedule::Algorithm written = schedule::to_algorithm(document);
    const Plan plan = plan_on(asked.view, task, c, 1);
    if (cut_of(task, plan).round == 0) continue;
    const Plan file = make_plan(task, written, c.protocol, 1, sim::flow_capabilities(asked.view.topology(), 128), true);
    ++compared;
    EXPECT_NEAR(asked.simulated(task, file).time / asked.simulated(task, plan).time, 1, 0.02)
        << made.name << ", " << c.algorithm << " " << schedule::name(c.collective) << ", " << task.elements * 4 << " B";
  }
  EXPECT_GT(compared, 0);
}

// Relation 10: no loss is free. All send to one over RoCE; what is sent again, and what receivers discard, is less time
// for the message.
TEST_F(Relations, LossIsNeverFree) {
  constexpr double kTurns = 0.985;  // a loss also changes whose turn it is at an output
  std::int64_t lost = 0;
  for (int i = 0; i < machines_; ++i) {
    const int nodes = 2 + below(2), channels = 4 << below(3);
    const std::string name = fmt::format("{}:nodes={},net=roce-400", below(2) == 0 ? "dgx-h100" : "hgx-b200", nodes);
    const Asked asked{Made(name).with({})};
    const Task task = task_on(asked.view, Collective::kGather, Bytes{8} << (20 + below(3)));
    const Plan plan = plan_on(asked.view, task, {"spread", Collective::kGather, Protocol::kSimple}, channels);
    const auto run = [&](const sim::PacketOptions& packets) {
      return asked.simulated(task, plan, {.packets = packets});
    };
    const Outcome clean = run({.congestion_control = false});
    EXPECT_EQ(clean.packets.lost, 0) << name;
    for (const auto recovery : {sim::Delivery::Recovery::kGoBackN, sim::Delivery::Recovery::kSelective}) {
      for (const Bytes room : {Bytes{64} << 10, Bytes{256} << 10}) {
        const Outcome lossy = run({.pause = false, .congestion_control = false, .recovery = recovery, .buffer = room});
        lost += lossy.packets.lost;
        EXPECT_GE(lossy.time.s(), clean.time.s() * kTurns) << name << ", x" << channels << ", " << room;
        if (lossy.packets.lost > clean.packets.sent / 100) {
          EXPECT_GT(lossy.time.s(), clean.time.s() * 1.01) << name << ", x" << channels << ", " << room;
        }
        EXPECT_GE(lossy.packets.sent - lossy.packets.lost - lossy.packets.discarded, clean.packets.sent / 4) << name;
      }
      const Outcome noisy = run({.congestion_control = false, .recovery = recovery, .bit_error_rate = 1e-7});
      EXPECT_GE(noisy.time.s(), clean.time.s() * kTurns) << name;
      EXPECT_GT(noisy.packets.lost, 0) << name;
    }
  }
  EXPECT_GT(lost, 0);
}

// Both levels, where nothing queues: rings, whose links carry one flow per channel at a time.
TEST_F(Relations, PacketsTakeAsLongAsFlowsWhereNothingQueues) {
  double worst = 0;
  for (int i = 0; i < machines_; ++i) {
    constexpr const char* kNets[] = {"ib-ndr", "roce-400"};
    const std::string name = fmt::format("{}:nodes={},net={},wires=switch", below(2) == 0 ? "dgx-h100" : "gh200",
                                         2 + below(3), kNets[below(2)]);
    const Asked asked{Made(name).with({})};
    constexpr Case kRings[] = {{"ring", Collective::kAllReduce, Protocol::kSimple},
                               {"ring", Collective::kAllGather, Protocol::kLL128},
                               {"ring", Collective::kReduceScatter, Protocol::kLL}};
    const Case& c = kRings[below(3)];
    const Task task = task_on(asked.view, c.collective, Bytes{1} << (16 + below(6)));
    const Plan plan = plan_on(asked.view, task, c, 1 << below(3));
    if (cut_of(task, plan).round == 0) continue;
    const double ratio = asked.simulated(task, plan, {.packets = sim::PacketOptions{}}).time /
                         asked.simulated(task, plan, {.fold = false, .fast_forward = false}).time;
    worst = std::max(worst, std::abs(ratio - 1));
    EXPECT_NEAR(ratio, 1, 0.15) << name << ", " << schedule::name(c.collective) << ", " << task.elements * 4 << " B, x"
                                << plan.channels;
  }
  fmt::print("packets and flows differ by at most {:.1f} %\n", 100 * worst);
}

// A slow rank on a machine that is too large to be simulated in full, also where its node is one of the first.
TEST_F(Relations, ASlowRankAnywhereOnALargeMachineIsSimulated) {
  const Asked healthy(Made("dgx-h100:nodes=16,net=ib-ndr").with({}));
  const Task task = task_on(healthy.view, Collective::kAllReduce, 4 << 20);
  const Plan plan = plan_on(healthy.view, task, kCases[0], 8);
  for (const int node : {0, 1, 2, 5, 11, 15}) {
    const Asked slow(Made("dgx-h100:nodes=16,net=ib-ndr").with({fmt::format("rank:{}=slow:1.5x", 8 * node + 3)}));
    const Outcome outcome = slow.simulated(task, plan, {.fold = false, .most_operations = 1e5, .most_in_full = 1e3});
    EXPECT_EQ(outcome.method, simulate::Method::kExtrapolated) << node;
    EXPECT_GT(outcome.time, Duration()) << node;
  }
}

// Each interval that is printed covers the full simulation in 95 of 100 cases, healthy and with one fault, wherever it
// lies.
TEST_F(Relations, IntervalsCoverTheFullSimulation) {
  int cases = 0, covered = 0;
  for (int i = 0; i < 4 * machines_; ++i) {
    const Made made = machine(6, 18);
    const int node = below(made.healthy.nodes()), kind = below(4);
    const auto rank = below(static_cast<int>(made.healthy.endpoints().size()));
    std::vector<std::string> faults;
    if (kind == 1) faults = {nic_link(made, node) + "=50%"};
    if (kind == 2) faults = {nic_link(made, node) + "=20%"};
    if (kind == 3) faults = {fmt::format("rank:{}=slow:1.5x", rank)};
    const Asked asked(made.with(faults));
    const Case& c = one_case();
    const Task task = task_on(asked.view, c.collective, bytes());
    const Plan plan = plan_on(asked.view, task, c, 1 << below(5));
    if (cut_of(task, plan).round == 0) continue;
    const Outcome full = asked.simulated(task, plan, {.fold = false, .fast_forward = false});
    const Outcome part = asked.simulated(
        task, plan, {.fold = false, .affordable = 1e3, .most_operations = 1e4, .too_many = 1e3, .most_in_full = 1e3});
    if (part.method != simulate::Method::kExtrapolated) continue;
    ++cases;
    const bool covers = part.low.s() <= full.time.s() * (1 + kSame) && part.high.s() >= full.time.s() * (1 - kSame);
    covered += covers;
    if (!covers)
      fmt::print("{} {}: {} {} of {} B, x{}: {:.1f} us, not {:.1f} to {:.1f}\n", made.name,
                 faults.empty() ? "healthy" : faults[0], c.algorithm, schedule::name(c.collective), task.elements * 4,
                 plan.channels, full.time.us(), part.low.us(), part.high.us());
  }
  fmt::print("{} of {} intervals cover the full simulation\n", covered, cases);
  EXPECT_GT(cases, 0);
  EXPECT_GE(covered, 0.95 * cases);
}

}  // namespace
}  // namespace weft
