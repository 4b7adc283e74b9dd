#include "model/simulate/simulate.h"

#include <gtest/gtest.h>

#include <string_view>

#include <array>

#include "machine/machine.h"
#include "model/sim/flow/flow_fabric.h"
#include "model/simulate/faults.h"
#include "model/simulate/steady.h"
#include "plan/collectives/registry.h"
#include "plan/cost/estimate.h"
#include "plan/cost/limit.h"
#include "plan/cost/shipped.h"

namespace weft::simulate {
namespace {

using protocol::Protocol;
using schedule::Plan;
using schedule::Task;

cost::MachineView machine_of(const std::string& name) {
  return cost::shipped_view(topology::load_machine(name).value()).value();
}

Task task_on(const cost::MachineView& machine, Collective collective, Bytes bytes) {
  const Rank ranks = machine.endpoints();
  return {.collective = collective,
          .ranks = ranks,
          .ranks_per_node = machine.ranks_per_node(ranks),
          .elements = bytes / 4,
          .element_bytes = 4};
}

Plan plan_for(const cost::MachineView& machine, const Task& task, const schedule::Algorithm& a, int channels) {
  const Protocol protocol = a.needs.messages ? Protocol::kSimple : Protocol::kDirect;
  return make_plan(task, a, protocol, channels, sim::flow_capabilities(machine.topology(), 64), true);
}

// Every rank sends 56 of 64 parts of 1 MiB to other nodes through a NIC of 50 GB/s: 1174 us. In the order of rank
// numbers all ranks of a node sent to one NIC of the next node at once, and it took 3539 us on eight nodes, 3404 on
// two, where 32 of 64 MiB / 16 ranks cross: 671 us.
TEST(Simulate, AnAllToAllUsesAllNicsAtOnce) {
  const auto& spread = **collectives::find_algorithm(Collective::kAllToAll, "spread");
  for (const auto& [name, least] :
       {std::pair{"dgx-h100:nodes=8,net=ib-ndr", 1174.4}, {"dgx-h100:nodes=2,net=ib-ndr", 671.1}}) {
    const cost::MachineView machine = machine_of(name);
    const Task task = task_on(machine, Collective::kAllToAll, 64 << 20);
    const Duration time = simulate(machine, task, plan_for(machine, task, spread, 16))->time;
    EXPECT_GT(time.us(), least);
    EXPECT_LT(time.us(), 1.5 * least) << name;
  }
}

struct Case {
  const char* machine;
  Bytes bytes;
  int channels;
};

// Every algorithm that claims a turn, on machines with NVLink domains, rails on one switch, rails on fat trees whose
// groups the nodes fill or do not fill, and chips that are wired directly.
class FoldedAndFull : public testing::TestWithParam<Case> {};

TEST_P(FoldedAndFull, TakeEquallyLong) {
  const cost::MachineView machine = machine_of(GetParam().machine);
  int folded = 0;
  for (const schedule::Algorithm& a : collectives::algorithms()) {
    const Task task = task_on(machine, a.collective, a.collective == Collective::kBarrier ? 0 : GetParam().bytes);
    const Plan plan = plan_for(machine, task, a, GetParam().channels);
    if (a.needs.aggregation || cut_of(task, plan).round == 0) continue;
    const auto quick = simulate(machine, task, plan, {.fast_forward = false});
    const auto full = simulate(machine, task, plan, {.fold = false, .fast_forward = false});
    ASSERT_EQ(quick.has_value(), full.has_value()) << a.name;
    if (!quick) continue;  // the protocol does not run here
    folded += quick->folded > 1;
    EXPECT_NEAR(quick->time / full->time, 1, 1e-3)
        << a.name << " " << schedule::name(a.collective) << " folded " << quick->folded << ":1";
  }
  EXPECT_GE(folded, 3);
}

INSTANTIATE_TEST_SUITE_P(Machines, FoldedAndFull,
                         testing::Values(Case{"dgx-h100", 1 << 20, 2}, Case{"dgx-a100", 3 << 20, 8},
                                         Case{"dgx-h100:nodes=4,net=ib-ndr,wires=switch", 1 << 20, 8},
                                         Case{"dgx-h100:nodes=6,net=ib-ndr", 3 << 20, 2},
                                         Case{"dgx-h100:nodes=8,net=ib-ndr,rails=4,wires=fat-tree", 1 << 20, 1}),
                         [](const auto& info) { return std::string("Case") + std::to_string(info.index); });

TEST(Folding, FindsTheTurnByWhichTheMachineLooksTheSame) {
  // A ring looks the same two nodes on (16 ranks). On one switch that is enough; where leaves hold 32 nodes, only the
  // groups at the leaves are alike: 64 nodes are two groups, of 256 ranks each.
  for (const auto& [name, folded] :
       {std::pair{"dgx-h100:nodes=8,net=ib-ndr,wires=switch", 4}, {"dgx-h100:nodes=64,net=ib-ndr", 2}}) {
    const cost::MachineView machine = machine_of(name);
    const Task task = task_on(machine, Collective::kAllReduce, Bytes{512 * 64 * 4});
    const Plan plan = plan_for(machine, task, **collectives::find_algorithm(Collective::kAllReduce, "ring"), 1);
    const auto outcome = simulate(machine, task, plan);
    ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
    EXPECT_EQ(outcome->folded, folded) << name;
  }
}

TEST(Folding, IsRefusedWhereEqualChunksWouldNeedTooMuchMore) {
  // 1000 elements on 32 ranks: chunks of 128 B but for the last; equal ones would be 2 % more.
  const cost::MachineView machine = machine_of("dgx-h100:nodes=4,net=ib-ndr,wires=switch");
  const auto& ring = **collectives::find_algorithm(Collective::kAllReduce, "ring");
  for (const auto& [bytes, folded, enlarged] : {std::tuple{Bytes{4000}, 1, Bytes{0}},
                                                {Bytes{32 * 64 * 4}, 2, Bytes{0}},
                                                {Bytes{32 * 64 * 1024 - 64}, 2, Bytes{64}}}) {
    const Task task = task_on(machine, Collective::kAllReduce, bytes);
    const auto outcome = simulate(machine, task, plan_for(machine, task, ring, 1));
    EXPECT_EQ(outcome->folded, folded) << bytes;
    EXPECT_EQ(outcome->enlarged, enlarged) << bytes;
  }
}

// A tree's ways up and down share ports in turns, and which one goes first changes after some hundred repetitions: 5 %.
TEST(FastForward, AgreesWithCarryingOutEverything) {
  for (const auto& [name, algorithm, collective, bytes] :
       {std::tuple{"dgx-h100:nodes=64,net=ib-ndr,wires=switch", "ring", Collective::kAllReduce, Bytes{64} << 20},
        {"dgx-h100:nodes=64,net=ib-ndr,wires=switch", "ring", Collective::kAllGather, Bytes{64} << 20},
        {"dgx-h100:nodes=64,net=ib-ndr,wires=switch", "nvls", Collective::kReduceScatter, Bytes{64} << 20},
        {"dgx-h100", "ring", Collective::kAllReduce, Bytes{1} << 30},
        {"dgx-h100:nodes=2,net=ib-ndr", "tree", Collective::kAllReduce, Bytes{1} << 30}}) {
    const cost::MachineView machine = machine_of(name);
    const Task task = task_on(machine, collective, bytes);
    const Plan plan = plan_for(machine, task, **collectives::find_algorithm(collective, algorithm), 1);
    const auto quick = simulate(machine, task, plan);
    const auto full = simulate(machine, task, plan, {.fast_forward = false});
    ASSERT_TRUE(quick && full) << name;
    EXPECT_TRUE(quick->fast_forwarded) << algorithm << " on " << name;
    EXPECT_NEAR(quick->time / full->time, 1, std::string_view(algorithm) == "tree" ? 0.06 : 1e-3)
        << algorithm << " on " << name;
  }
}

const auto carefully = [](const auto&) { return Care::kPeriods; };

TEST(Steadily, BelievesAPaceOnlyAfterTwoEqualPeriods) {
  // The first hundred repetitions take 3 us each, all others 1 us.
  struct Timed {
    Duration time;
    double represented;
  };
  std::int64_t most = 0;
  Shortened shortened;
  const auto run = [&](std::int64_t n) -> Result<Timed> {
    most = std::max(most, n);
    return Timed{Duration::microseconds(static_cast<double>(n + 2 * std::min<std::int64_t>(n, 100))),
                 3.0 * static_cast<double>(n)};
  };
  const auto slow_start = steadily(10'000, 64, shortened, run, carefully);
  EXPECT_TRUE(shortened.any);
  EXPECT_NEAR(slow_start->time.us(), 10'200, 1);
  EXPECT_NEAR(slow_start->represented, 3 * 10'000, 1e-6);
  EXPECT_LT(most, 1'000);
  // Never steady: all is run.
  shortened = {};
  const auto square = [&](std::int64_t n) -> Result<Timed> {
    return Timed{Duration::microseconds(static_cast<double>(n * n)), 0};
  };
  EXPECT_NEAR(steadily(1'000, 2, shortened, square, carefully)->time.us(), 1'000'000, 1);
  EXPECT_FALSE(shortened.any);
}

TEST(Steadily, BelievesAPaceThatGoesUpAndDownOnAverage) {
  struct Timed {
    Duration time;
    double represented;
  };
  // Repetitions take 10 us, and every seventh 11 us.
  std::int64_t most = 0;
  Shortened shortened;
  const auto run = [&](std::int64_t n) -> Result<Timed> {
    most = std::max(most, n);
    return Timed{Duration::microseconds(static_cast<double>(10 * n + n / 7)), static_cast<double>(n)};
  };
  const auto wavers = steadily(10'000, 2, shortened, run, carefully);
  EXPECT_TRUE(shortened.any);
  EXPECT_NEAR(wavers->time.us(), 101'428, 400);
  EXPECT_NEAR(wavers->represented, 10'000, 1e-6);
  EXPECT_LT(most, 1'000);
  EXPECT_EQ(shortened.unsure, 0);
  // Two runs say about the same, and that it is about.
  most = 0;
  const auto hurried = steadily(10'000, 2, shortened, run, [](const Timed&) { return Care::kTwoRuns; });
  EXPECT_NEAR(hurried->time.us(), 101'428, 1'500);
  EXPECT_LT(most, 20);
  EXPECT_EQ(shortened.unsure, kOfTwoRuns);
}

// Many rounds of parts that differ are all simulated: fewer rounds would have other parts.
TEST(Simulate, RunsEveryRoundOfAnUnevenAllToAll) {
  const cost::MachineView machine = machine_of("dgx-h100");
  const auto time = [&](Bytes bytes) {
    const Task task = schedule::task_of(Collective::kAllToAllV, 8, 8, bytes, DataType::kFloat32);
    const auto& grouped = **collectives::find_algorithm(Collective::kAllToAllV, "grouped");
    const Plan plan =
        make_plan(task, grouped, protocol::Protocol::kSimple, 16, sim::flow_capabilities(machine.topology(), 8), true);
    return simulate(machine, task, plan)->time;
  };
  EXPECT_NEAR(time(Bytes{1} << 30) / time(Bytes{1} << 29), 2, 0.1);
}

TEST(Simulate, SaysBeforehandHowManyOperationsARunHas) {
  const cost::MachineView machine = machine_of("dgx-h100:nodes=4,net=ib-ndr");
  const Task task = task_on(machine, Collective::kAllGather, 1 << 20);
  for (const char* name : {"recursive_doubling", "ring"}) {
    const Plan plan = plan_for(machine, task, *collectives::find_algorithm(Collective::kAllGather, name).value(), 2);
    double announced = 0;
    const auto before_run = [&](double operations) { announced = operations; };
    const auto quick = simulate(machine, task, plan, {.fast_forward = false, .before_run = before_run});
    ASSERT_TRUE(quick);
    EXPECT_EQ(quick->folded > 1, plan.algorithm->name == "ring");
    EXPECT_NEAR(announced / static_cast<double>(quick->operations), 1, 0.1) << name;
  }
}

TEST(Events, ARunPastTheMostStopsWithWhatItKnows) {
  const cost::MachineView machine = machine_of("dgx-h100");
  const Task task = task_on(machine, Collective::kAllReduce, 1 << 20);
  const Plan plan = plan_for(machine, task, **collectives::find_algorithm(Collective::kAllReduce, "ring"), 1);
  const auto outcome = simulate(machine, task, plan, {.fold = false, .max_events = 50});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, Code::kNoResources);
  EXPECT_NE(outcome.error().message.find("stopped after 50 events"), std::string::npos) << outcome.error().message;
  EXPECT_NE(outcome.error().message.find("0 of 8 strands had finished"), std::string::npos) << outcome.error().message;
}

// The root of a gather takes one message after the other: each further rank on another node adds the time
// that one message keeps a rank busy. Packets see the same: it is not the links.
TEST(Simulate, AnIncastOfSmallMessagesGrowsWithTheirNumber) {
  const auto& spread = **collectives::find_algorithm(Collective::kGather, "spread");
  std::vector<double> seconds;
  for (const int nodes : {4, 8}) {
    const cost::MachineView machine = machine_of(fmt::format("dgx-h100:nodes={},net=ib-ndr,wires=switch", nodes));
    const Task task = task_on(machine, Collective::kGather, 4096);
    const Plan plan = plan_for(machine, task, spread, 1);
    const auto flows = simulate(machine, task, plan), packets = simulate(machine, task, plan, {.packets = {{}}});
    ASSERT_TRUE(flows && packets);
    EXPECT_NEAR(packets->time / flows->time, 1, 0.03);
    seconds.push_back(flows->time.s());
  }
  const double each = machine_of("dgx-h100:nodes=4").costs().find("NET", Protocol::kSimple)->overhead.s();
  EXPECT_NEAR(seconds[1] - seconds[0], 32 * each, 0.1 * each);
}

// Signals to other nodes are posted one after the other, as messages are; those inside a node cost nothing to post.
TEST(Simulate, ABarriersSignalsArePostedAndEstimatedSo) {
  std::vector<double> seconds;
  for (const int nodes : {4, 8})
    for (const std::string_view name : {"dissemination", "spread"}) {
      const cost::MachineView machine = machine_of(fmt::format("dgx-h100:nodes={},net=ib-ndr,wires=switch", nodes));
      const Task task = task_on(machine, Collective::kBarrier, 0);
      const Plan plan = plan_for(machine, task, **collectives::find_algorithm(Collective::kBarrier, name), 1);
      const auto simulated = simulate(machine, task, plan);
      const auto estimated = cost::estimate(machine, task, plan);
      ASSERT_TRUE(simulated && estimated);
      EXPECT_NEAR(estimated->total / simulated->time, 1, 0.01) << name << " on " << nodes;
      EXPECT_GE(simulated->time, cost::limit(machine, task).time);
      if (name == "spread") seconds.push_back(simulated->time.s());
    }
  const double each = machine_of("dgx-h100:nodes=4").costs().find("NET", Protocol::kSimple)->overhead.s();
  EXPECT_NEAR(seconds[1] - seconds[0], 32 * each, 0.1 * each);
}

// All ranks of an all_reduce's ring end together: calls follow each other. Data of a broadcast flows one way, and the
// next call's fills the pipeline behind it: every further call takes what its bytes take on the slowest link, and its
// own launch.
TEST(Simulate, CallsFollowEachOtherOrOverlapAsDataFlows) {
  const cost::MachineView machine = machine_of("dgx-a100");
  const auto times = [&](Collective collective) {
    const Task task = task_on(machine, collective, 64 << 20);
    const Plan plan = plan_for(machine, task, **collectives::find_algorithm(collective, "ring"), 16);
    return std::array{simulate(machine, task, plan)->time, simulate(machine, task, plan, {.calls = 2})->time,
                      simulate(machine, task, plan, {.calls = 4})->time};
  };
  const auto together = times(Collective::kAllReduce);
  EXPECT_NEAR(together[1] / together[0], 2, 0.01);
  const auto overlapping = times(Collective::kBroadcast);
  const double further = (overlapping[2] - overlapping[1]).s() / 2;
  const double bytes = (64 << 20) / (300e9 * 0.8) + 8.4e-6;  // 12 links of 25 GB/s, 20 of them data; launch
  EXPECT_GT(further, bytes);
  EXPECT_LT(further, 1.2 * bytes);
  EXPECT_GT(overlapping[0].s(), 1.3 * further);
}

}  // namespace
}  // namespace weft::simulate
