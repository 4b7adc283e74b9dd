#include <gtest/gtest.h>

#include <map>

#include <thread>

#include "exec/executor.h"
#include "exec/kernels/fold.h"
#include "exec/virtual_run.h"
#include "machine/machine.h"
#include "model/sim/flow/flow_fabric.h"
#include "net/threads/threads.h"
#include "plan/collectives/registry.h"
#include "plan/cost/shipped.h"
#include "plan/tune/tune.h"

// One schedule, two worlds: what is run on real memory and what is simulated must be the same thing.
namespace weft {
namespace {

using protocol::Operation;
using schedule::Plan;
using schedule::Task;

// The operations of each strand of each rank, in order.
struct Recorder {
  std::vector<std::vector<Operation>> strands;
  int per_rank = 1;
  void posted(Rank rank, int strand, const Operation& operation) {
    strands[static_cast<std::size_t>(rank * per_rank + strand)].push_back(operation);
  }
  void done(int, const Operation&) {}
};

struct Outcome {
  std::vector<std::vector<Operation>> trace;
  std::vector<std::vector<float>> out;
};

std::size_t buffer_size(const Task& task, schedule::Buffer buffer) {
  const bool part = buffer == schedule::Buffer::kIn ? task.collective == Collective::kAllGather
                                                    : task.collective == Collective::kReduceScatter;
  return static_cast<std::size_t>(task.elements / (part ? task.ranks : 1));
}

// Sums of these depend on the order they are taken in, so that equal bits mean equal arithmetic.
std::vector<std::vector<float>> inputs(const Task& task) {
  std::vector<std::vector<float>> in;
  for (Rank r = 0; r < task.ranks; ++r) {
    auto& mine = in.emplace_back(buffer_size(task, schedule::Buffer::kIn));
    for (std::size_t i = 0; i < mine.size(); ++i)
      mine[i] = 1.0f / static_cast<float>(3 + (i * 7 + static_cast<std::size_t>(r) * 13) % 101);
  }
  return in;
}

fabric::Call call_of(const Plan& plan, const std::vector<float>& in, std::vector<float>& out) {
  return {.in = reinterpret_cast<const std::byte*>(in.data()),
          .out = reinterpret_cast<std::byte*>(out.data()),
          .protocol = plan.protocol,
          .fold = exec::fold_for(DataType::kFloat32, ReduceOp::kSum),
          .publishes = plan.algorithm->needs.memory()};
}

Outcome run_for_real(const Task& task, const Plan& plan) {
  const auto in = inputs(task);
  const int strands = plan.channels * plan.algorithm->lanes;
  Outcome o;
  o.trace.resize(static_cast<std::size_t>(task.ranks * strands));
  o.out.assign(static_cast<std::size_t>(task.ranks), std::vector<float>(buffer_size(task, schedule::Buffer::kOut)));
  auto worlds = net::threads::open(task.ranks, {}).value();
  std::vector<std::thread> threads;
  for (Rank r = 0; r < task.ranks; ++r)
    threads.emplace_back([&, r] {
      auto& world = *worlds[static_cast<std::size_t>(r)];
      const schedule::Program program = schedule::lower(task, plan, r);
      using Strand = exec::Interpreter<net::memory::Endpoint, exec::ProgramCursor, Recorder>;
      std::vector<Strand> mine;
      for (int s = 0; s < strands; ++s) {
        const auto& operations = program[static_cast<std::size_t>(s)];
        mine.emplace_back(s, exec::ProgramCursor{operations.data(), operations.data() + operations.size()});
      }
      Recorder recorder{{o.trace.begin() + r * strands, o.trace.begin() + (r + 1) * strands}, strands};
      recorder.per_rank = 0;  // this rank's strands only
      world.endpoint.begin(call_of(plan, in[static_cast<std::size_t>(r)], o.out[static_cast<std::size_t>(r)]));
      for (bool done = false; !done; std::this_thread::yield()) {
        done = true;
        for (Strand& s : mine) done &= s.advance(world.endpoint, recorder) == exec::Progress::kDone;
      }
      std::move(recorder.strands.begin(), recorder.strands.end(), o.trace.begin() + r * strands);
    });
  for (auto& t : threads) t.join();
  return o;
}

Outcome run_simulated(const Task& task, const Plan& plan, const topology::Topology& machine) {
  const auto in = inputs(task);
  const int strands = plan.channels * plan.algorithm->lanes;
  Recorder recorder{std::vector<std::vector<Operation>>(static_cast<std::size_t>(task.ranks * strands)), strands};
  Outcome o;
  o.out.assign(static_cast<std::size_t>(task.ranks), std::vector<float>(buffer_size(task, schedule::Buffer::kOut)));
  const topology::Routes routes(machine);
  sim::FlowFabric fabric(machine, routes, task.ranks,
                         {.costs = protocol::HopCosts::shipped(protocol::HopCosts::Endpoint::kGpu),
                          .strands = strands,
                          .moves_data = true});
  const auto time = exec::run_virtually(
      fabric, task, plan,
      [&](Rank r) { return call_of(plan, in[static_cast<std::size_t>(r)], o.out[static_cast<std::size_t>(r)]); },
      recorder);
  EXPECT_TRUE(time.has_value()) << time.error().message;
  o.trace = std::move(recorder.strands);
  return o;
}

TEST(Agreement, EverySchedulePostsTheSameStepsAndLeavesTheSameBitsInBothWorlds) {
  const auto machine = topology::load_machine("dgx-h100").value();
  for (const schedule::Algorithm& a : collectives::algorithms()) {
    for (const Rank ranks : {2, 3, 8}) {
      for (const Bytes elements : {Bytes{24}, Bytes{24 * 1000}, Bytes{24 * 20011}}) {
        Task task{.collective = a.collective,
                  .ranks = ranks,
                  .root = ranks - 1,
                  .ranks_per_node = ranks,
                  .elements = elements,
                  .element_bytes = 4};
        const auto protocol = a.needs.messages ? protocol::Protocol::kSimple : protocol::Protocol::kDirect;
        const Plan plan = make_plan(task, a, protocol, a.lanes == 1 ? 2 : 1, net::memory::capabilities("memory"), true);
        const Outcome real = run_for_real(task, plan), simulated = run_simulated(task, plan, machine);
        EXPECT_EQ(real.trace, simulated.trace) << a.name << " on " << ranks;
        EXPECT_EQ(real.out, simulated.out) << a.name << " on " << ranks;
      }
    }
  }
}

TEST(Agreement, TheCostModelIsTheSimulatorWhereNothingQueues) {
  // One node, one channel: shares do not change over time and slots suffice, so both count the same thing.
  const cost::MachineView machine(topology::load_machine("dgx-h100").value(),
                                  protocol::HopCosts::shipped(protocol::HopCosts::Endpoint::kGpu));
  for (const Bytes elements : {Bytes{256}, Bytes{1} << 18, Bytes{1} << 24}) {
    for (const char* algorithm : {"ring", "two_shot"}) {
      const Task task{.ranks = 8, .ranks_per_node = 8, .elements = elements, .element_bytes = 4};
      const auto choice = tune::choose(machine, {.task = task,
                                                 .can = sim::flow_capabilities(machine.topology(), 64),
                                                 .algorithm = algorithm,
                                                 .channels = 1})
                              .value();
      sim::FlowFabric fabric(machine.topology(), machine.routes(), 8,
                             {.costs = machine.costs(), .strands = choice.plan.algorithm->lanes});
      const auto time = exec::run_virtually(fabric, task, choice.plan,
                                            [&](Rank) { return fabric::Call{.protocol = choice.plan.protocol}; });
      EXPECT_NEAR(choice.estimate.total.us(), time->us(), 0.02 * time->us()) << algorithm << " " << elements;
    }
  }
}

// Two nodes of eight GPUs, a ring on each of 64 channels: every rank sends 30 messages over the network on eight of
// them, and posts one after the other. On 8 channels it posts an eighth of that.
TEST(Agreement, MoreChannelsThanARankCanPostToAreSlower) {
  const cost::MachineView machine(topology::load_machine("dgx-h100:nodes=2,net=ib-ndr").value(),
                                  protocol::HopCosts::shipped(protocol::HopCosts::Endpoint::kGpu));
  const Task task{.ranks = 16, .ranks_per_node = 8, .elements = 1 << 18, .element_bytes = 4};
  const double posting = machine.costs().find("NET", protocol::Protocol::kSimple)->overhead.us();
  std::map<int, double> simulated;
  for (const int channels : {8, 64}) {
    const auto choice = tune::choose(machine, {.task = task,
                                               .can = sim::flow_capabilities(machine.topology(), 64),
                                               .algorithm = "ring",
                                               .protocol = "Simple",
                                               .channels = channels})
                            .value();
    sim::FlowFabric fabric(machine.topology(), machine.routes(), 16, {.costs = machine.costs(), .strands = channels});
    simulated[channels] = exec::run_virtually(fabric, task, choice.plan, [&](Rank) {
                            return fabric::Call{.protocol = choice.plan.protocol};
                          })->us();
    EXPECT_NEAR(choice.estimate.total.us(), simulated[channels], 0.02 * simulated[channels]);
  }
  EXPECT_GT(simulated[64], 8 * 30 * posting);
  EXPECT_GT(simulated[64], 1.4 * simulated[8]);
}

// Where a channel rests after every message, larger slices pay; but what is given, as NCCL's slices are, holds.
TEST(Agreement, SlicesGrowWhereThatPaysUnlessTheyAreGiven) {
  const auto machine = cost::shipped_view(topology::load_machine("dgx-h100:nodes=16,net=ib-ndr").value()).value();
  const Task task{.ranks = 128, .ranks_per_node = 8, .elements = 1 << 28, .element_bytes = 4};
  tune::Question question{.task = task,
                          .can = sim::flow_capabilities(machine.topology()),
                          .algorithm = "ring",
                          .protocol = "Simple",
                          .channels = 16};
  EXPECT_GT(tune::choose(machine, question)->plan.slice_bytes, 128 << 10);  // a quarter of a channel's chunk
  question.slice = 64 << 10;
  EXPECT_EQ(tune::choose(machine, question)->plan.slice_bytes, 64 << 10);
}

// The message in one direction over a rank's port, and 1/n of it for what the rank itself sums or sends, at the rate
// that such traffic gets; and what every chunk costs besides.
TEST(Agreement, AnAllReduceThroughASwitchTakesTheTimeOfItsTrafficAndIsWhatTheCostModelSays) {
  const cost::MachineView machine(topology::load_machine("dgx-h100").value(),
                                  protocol::HopCosts::shipped(protocol::HopCosts::Endpoint::kGpu));
  const Task task{.ranks = 8, .ranks_per_node = 8, .elements = 1 << 28, .element_bytes = 4};
  for (const char* algorithm : {"nvls", "nvls_tree"}) {
    const auto choice =
        tune::choose(machine,
                     {.task = task, .can = sim::flow_capabilities(machine.topology(), 64), .algorithm = algorithm})
            .value();
    sim::FlowFabric fabric(machine.topology(), machine.routes(), 8,
                           {.costs = machine.costs(), .strands = choice.plan.channels * choice.plan.algorithm->lanes});
    const auto time = exec::run_virtually(fabric, task, choice.plan,
                                          [&](Rank) { return fabric::Call{.protocol = choice.plan.protocol}; });
    EXPECT_NEAR(choice.estimate.total.us(), time->us(), 0.02 * time->us()) << algorithm;
    const double rate = 450e9 * machine.costs().through_switch("NVL", protocol::Protocol::kSimple)->efficiency;
    const double traffic = 4.0 * (1 << 28) * (1 + 1.0 / 8) / rate * 1e6;
    EXPECT_GT(time->us(), traffic) << algorithm;
    EXPECT_LT(time->us(), traffic * 1.03) << algorithm;
  }
}

TEST(Agreement, WhatSwitchesSumIsBitForBitWhatRanksSumInTheirPlace) {
  const auto machine = topology::load_machine("dgx-h100:nodes=2,net=ib-ndr,sharp=on").value();
  int tried = 0;
  for (const schedule::Algorithm& a : collectives::algorithms()) {
    if (!a.needs.multicast && !a.needs.aggregation) continue;
    for (const Bytes elements : {Bytes{48}, Bytes{48 * 20011}}) {
      const Task task{.collective = a.collective,
                      .ranks = 16,
                      .root = 5,
                      .ranks_per_node = 8,
                      .elements = elements,
                      .element_bytes = 4};
      const auto plan = [&](const protocol::Capabilities& can) {
        return make_plan(task, a, protocol::Protocol::kSimple, 1, can, true);
      };
      const Outcome by_switches = run_simulated(task, plan(sim::flow_capabilities(machine, a.lanes)), machine);
      const Outcome by_ranks = run_simulated(task, plan(net::memory::capabilities("memory")), machine);
      EXPECT_EQ(by_switches.out, by_ranks.out) << a.name << " " << schedule::name(a.collective);
      ++tried;
    }
  }
  EXPECT_GE(tried, 16);
}

TEST(Agreement, ASimulationIsTheSameEveryTime) {
  const auto machine = topology::load_machine("dgx-h100:nodes=4,net=ib-ndr").value();
  const topology::Routes routes(machine);
  const auto* tree = collectives::find_algorithm(Collective::kAllReduce, "tree").value();
  const Task task{.ranks = 32, .ranks_per_node = 8, .elements = 1 << 20, .element_bytes = 4};
  const Plan plan{.algorithm = tree, .protocol = protocol::Protocol::kSimple, .channels = 4, .slice_bytes = 64 << 10};
  std::vector<std::int64_t> times;
  for (int i = 0; i < 3; ++i) {
    sim::FlowFabric fabric(machine, routes, 32,
                           {.costs = protocol::HopCosts::shipped(protocol::HopCosts::Endpoint::kGpu), .strands = 16});
    times.push_back(
        exec::run_virtually(fabric, task, plan, [&](Rank) { return fabric::Call{.protocol = plan.protocol}; })->ps());
  }
  EXPECT_EQ(times[0], times[1]);
  EXPECT_EQ(times[0], times[2]);
}

TEST(Agreement, TwoSimulationsInOneProcessDoNotTouchEachOther) {
  // Rule: no mutable globals. Two threads simulate at once; each gets what it gets alone.
  const auto simulate = [] {
    const auto machine = topology::load_machine("dgx-h100:nodes=2,net=ib-ndr").value();
    const topology::Routes routes(machine);
    const Task task{.ranks = 16, .ranks_per_node = 8, .elements = 1 << 18, .element_bytes = 4};
    const Plan plan{.algorithm = collectives::find_algorithm(Collective::kAllReduce, "ring").value(),
                    .channels = 2,
                    .slice_bytes = 64 << 10};
    sim::FlowFabric fabric(machine, routes, 16,
                           {.costs = protocol::HopCosts::shipped(protocol::HopCosts::Endpoint::kGpu), .strands = 2});
    return exec::run_virtually(fabric, task, plan, [&](Rank) { return fabric::Call{}; })->ps();
  };
  const auto alone = simulate();
  std::int64_t first = 0, second = 0;
  std::thread a([&] { first = simulate(); }), b([&] { second = simulate(); });
  a.join();
  b.join();
  EXPECT_EQ(first, alone);
  EXPECT_EQ(second, alone);
}

TEST(Simulation, StopsWithWhatItKnowsPastTheEventLimit) {
  const auto machine = topology::load_machine("dgx-h100").value();
  const topology::Routes routes(machine);
  const Task task{.ranks = 8, .ranks_per_node = 8, .elements = 1 << 20, .element_bytes = 4};
  const Plan plan{.algorithm = collectives::find_algorithm(Collective::kAllReduce, "ring").value(),
                  .slice_bytes = 64 << 10};
  sim::FlowFabric fabric(machine, routes, 8,
                         {.costs = protocol::HopCosts::shipped(protocol::HopCosts::Endpoint::kGpu), .max_events = 100});
  const auto time = exec::run_virtually(fabric, task, plan, [&](Rank) { return fabric::Call{}; });
  ASSERT_FALSE(time.has_value());
  EXPECT_NE(time.error().message.find("stopped after 100 events"), std::string::npos) << time.error().message;
}

// Choosing does not look at all that loses; what wins, and by what time, is the same.
TEST(Choose, TakesTheFirstOfAllCandidates) {
  for (const char* name : {"dgx-h100", "dgx-h100:nodes=4,net=ib-ndr", "dgx-h100:nodes=128,net=ib-ndr", "dgx1-v100"}) {
    const cost::MachineView machine = cost::shipped_view(topology::load_machine(name).value()).value();
    for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast})
      for (const Bytes bytes : {Bytes{8}, Bytes{64} << 10, Bytes{64} << 20}) {
        const Rank ranks = machine.endpoints();
        const tune::Question question{.task = {.collective = collective,
                                               .ranks = ranks,
                                               .ranks_per_node = machine.ranks_per_node(ranks),
                                               .elements = std::max<Bytes>(bytes / 4, ranks),
                                               .element_bytes = 4},
                                      .can = sim::flow_capabilities(machine.topology(), 64)};
        const auto all = tune::candidates(machine, question);
        const auto chosen = tune::choose(machine, question);
        ASSERT_TRUE(all && chosen) << name;
        const auto plan = [](const tune::Candidate& c) {
          return fmt::format("{} {} {} channels, {} B", c.plan.algorithm->name, protocol::traits(c.plan.protocol).name,
                             c.plan.channels, c.plan.slice_bytes);
        };
        EXPECT_EQ(plan(*chosen), plan(all->front())) << name << " " << schedule::name(collective) << " " << bytes;
        EXPECT_EQ(chosen->estimate.total, all->front().estimate.total);
        EXPECT_EQ(chosen->estimate.latency, all->front().estimate.latency);
        EXPECT_EQ(chosen->reason, all->front().reason);
        EXPECT_TRUE(chosen->chosen);
      }
  }
}

}  // namespace
}  // namespace weft
