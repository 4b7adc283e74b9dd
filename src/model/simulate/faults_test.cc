#include "model/simulate/faults.h"

#include <gtest/gtest.h>

#include "machine/machine.h"
#include "model/sim/flow/flow_fabric.h"
#include "model/simulate/simulate.h"
#include "plan/collectives/registry.h"
#include "plan/cost/shipped.h"

namespace weft::simulate {
namespace {

Duration time_with(const std::string& machine, const std::vector<std::string>& faults, Bytes bytes = 64 << 20,
                   int channels = 16) {
  auto faulted = apply_faults(topology::load_machine(machine).value(), faults);
  EXPECT_TRUE(faulted.has_value()) << (faulted ? "" : faulted.error().message);
  if (!faulted) return {};
  const auto view = cost::shipped_view(std::move(faulted->machine)).value();
  const Rank ranks = view.endpoints();
  const schedule::Task task{
      .ranks = ranks, .ranks_per_node = view.ranks_per_node(ranks), .elements = bytes / 4, .element_bytes = 4};
  const auto& ring = **collectives::find_algorithm(Collective::kAllReduce, "ring");
  const auto plan =
      make_plan(task, ring, protocol::Protocol::kSimple, channels, sim::flow_capabilities(view.topology(), 64), true);
  return simulate(view, task, plan, {.disturbances = faulted->disturbances})->time;
}

constexpr const char* kFour = "dgx-h100:nodes=4,net=ib-ndr,wires=switch";

TEST(Faults, ADeadNicMakesAnotherCarryItsTraffic) {
  // Sixteen rings, two per NIC, which they fill; four of them must share one: twice as long, but for latencies.
  const double slower = time_with(kFour, {"nic:2/3=down"}, 1 << 30) / time_with(kFour, {}, 1 << 30);
  EXPECT_GT(slower, 1.6);
  EXPECT_LT(slower, 2.1);
}

TEST(Faults, AHalvedLinkOfTheOnlyWayDoublesTheTransfer) {
  const double slower = time_with(kFour, {"link:node1/nic0-switch0=50%"}, 1 << 30) / time_with(kFour, {}, 1 << 30);
  EXPECT_GT(slower, 1.6);
  EXPECT_LT(slower, 2.1);
}

// A GPU that no switch reaches takes part in no sum of the others: with one of two NVSwitches dead, or one GPU's links.
TEST(Faults, ASwitchThatIsDeadOnOneNodeOrForOneGpuSumsForNobody) {
  const auto sums = [](const char* machine, const char* fault) {
    const auto faulted = apply_faults(topology::load_machine(machine).value(), std::vector<std::string>{fault});
    return sim::flow_capabilities(faulted->machine, 8).multicast;
  };
  EXPECT_TRUE(sums(kFour, "nic:0/0=down"));
  EXPECT_FALSE(sums(kFour, "nvswitch:0=down"));
  EXPECT_FALSE(sums(kFour, "nvswitch:3/0=down"));
  EXPECT_FALSE(sums("dgx-h100", "link:gpu3-nvswitch0=down"));
  EXPECT_TRUE(sums("dgx-h100", "link:gpu3-nvswitch0=50%"));
}

TEST(Faults, HalfANicIsHalfItsLinkToTheNetwork) {
  EXPECT_EQ(time_with(kFour, {"nic:1/0=50%"}), time_with(kFour, {"link:node1/nic0-switch0=50%"}));
}

TEST(Faults, HalfASwitchTakesTwiceAsLong) {
  const double slower = time_with(kFour, {"switch:0=50%"}, 1 << 30) / time_with(kFour, {}, 1 << 30);
  EXPECT_GT(slower, 1.6);
  EXPECT_LT(slower, 2.1);
}

TEST(Faults, OneThatBeginsWhileTheJobRunsCostsWhatIsLeftOfIt) {
  // Half of the time at the full rate, and then half of the bytes at half of it: 1.5 times as long.
  const double healthy = time_with(kFour, {}, 1 << 30).s(), always = time_with(kFour, {"nic:1/0=50%"}, 1 << 30).s();
  const auto from = [&](double part) {
    return time_with(kFour, {fmt::format("nic:1/0=50%@t={:.3f}us", part * healthy * 1e6)}, 1 << 30).s();
  };
  EXPECT_NEAR(from(1.1), healthy, 1e-6 * healthy);
  EXPECT_NEAR(from(0.5), (healthy + always) / 2, 0.05 * healthy);
  EXPECT_NEAR(from(1e-6), always, 0.01 * healthy);
}

TEST(Faults, WhatIsDownFromSomeTimeOnIsRefused) {
  const auto result =
      apply_faults(topology::load_machine(kFour).value(), std::vector<std::string>{"nic:1/0=down@t=2ms"});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kInvalidArgument);
}

TEST(Faults, LatencyIsAddedOnEveryPassage) {
  // A ring of 32 ranks passes the link once for every one of its 62 steps, but only as often as a message's own way
  // around: between its share, 62 / 32 passages, and all.
  const Duration added = time_with(kFour, {"link:node1/nic0-switch0=+5us"}, 8192) - time_with(kFour, {}, 8192);
  EXPECT_GE(added.us(), 5 * 62 / 32.0 - 0.1);
  EXPECT_LE(added.us(), 5 * 62);
}

TEST(Faults, ADeadGpuTakesItsRankAway) {
  const std::vector<std::string> faults{"gpu:1/5=down"};
  EXPECT_EQ(apply_faults(topology::load_machine(kFour).value(), faults)->machine.endpoints().size(), 31u);
  EXPECT_GT(time_with(kFour, faults).us(), 0);
}

// On machines that are so large that time would be extrapolated: thresholds are as low as if they were. The first nodes
// once stood for all, so that a fault on node 1 was counted once, on node 5 four times, and on node 12 not at all.
TEST(Faults, CostARingTheSameOnEveryNodeOfALargeMachine) {
  const auto run = [](const std::vector<std::string>& faults) {
    auto faulted = apply_faults(topology::load_machine("gh200:nodes=16,net=ib-ndr,wires=switch").value(), faults);
    const auto view = cost::shipped_view(std::move(faulted->machine)).value();
    const schedule::Task task{.ranks = 64, .ranks_per_node = 4, .elements = 64 << 20, .element_bytes = 4};
    const auto& ring = **collectives::find_algorithm(Collective::kAllReduce, "ring");
    const auto plan =
        make_plan(task, ring, protocol::Protocol::kSimple, 4, sim::flow_capabilities(view.topology(), 64), true);
    return simulate(view, task, plan,
                    {.affordable = 1e3, .most_operations = 1e3, .too_many = 1e3, .disturbances = faulted->disturbances})
        ->time;
  };
  const Duration healthy = run({}), first = run({"link:node0/nic0-switch0=50%"});
  EXPECT_GT(first / healthy, 1.05);
  EXPECT_LT(first / healthy, 2.05);
  for (const int node : {1, 2, 3, 5, 12})
    EXPECT_NEAR(run({fmt::format("link:node{}/nic0-switch0=50%", node)}) / first, 1, 1e-3) << node;
  EXPECT_GE(run({"rank:9=slow:1.2x"}), healthy);
}

// Trees have roles, so the fault's cost lies between those of its roles; what is said then must hold in full.
TEST(Faults, ThatAreExtrapolatedLieWithinTheirBounds) {
  auto faulted = apply_faults(topology::load_machine("dgx-h100:nodes=16,net=ib-ndr,wires=switch").value(),
                              std::vector<std::string>{"nic:9/2=down"});
  const auto view = cost::shipped_view(std::move(faulted->machine)).value();
  const schedule::Task task{.ranks = 128, .ranks_per_node = 8, .elements = 16 << 20, .element_bytes = 4};
  for (const char* name : {"ring", "tree"}) {
    const auto& algorithm = **collectives::find_algorithm(Collective::kAllReduce, name);
    const auto plan =
        make_plan(task, algorithm, protocol::Protocol::kSimple, 8, sim::flow_capabilities(view.topology(), 64), true);
    const auto full = simulate(view, task, plan),
               part = simulate(view, task, plan, {.most_operations = 1e5, .most_in_full = 0});
    EXPECT_EQ(full->method, Method::kFull);
    EXPECT_EQ(part->method, Method::kExtrapolated);
    EXPECT_LE(part->low, full->time * 1.02) << name;
    EXPECT_GE(part->high, full->time * 0.98) << name;
  }
}

TEST(Faults, ASlowRankHoldsUpTheRing) {
  // One channel, which no link bounds.
  const double slower = time_with("dgx-h100", {"rank:5=slow:2x"}, 1 << 30, 1) / time_with("dgx-h100", {}, 1 << 30, 1);
  EXPECT_GT(slower, 1.5);
  EXPECT_LT(slower, 2.1);
}

TEST(Faults, ALinkThatIsDownAQuarterOfTheTimeCarriesLess) {
  const std::string link = "link:node1/nic0-switch0=";
  const Duration healthy = time_with(kFour, {}, 1 << 30),
                 flapping = time_with(kFour, {link + "flap:100us,25%"}, 1 << 30);
  // At the most all traffic waits for the quarter: 1 / 0.75; at the least rings that do not use the link hide some.
  EXPECT_GT(flapping / healthy, 1.1);
  EXPECT_LT(flapping / healthy, 1.5);
}

// A connection that is first used while a link is down is as fast as any other afterwards.
TEST(Faults, LinksThatFlapQuicklyCostWhatTheirPartOfTheTimeSays) {
  const std::string link = "link:node1/nic0-switch0=";
  const Duration healthy = time_with(kFour, {}, 16 << 20);
  for (const char* period : {"1us", "2us", "5us", "10us", "20us", "100us"}) {
    const double slower = time_with(kFour, {link + "flap:" + period + ",50%"}, 16 << 20) / healthy;
    EXPECT_GE(slower, 0.99) << period;
    EXPECT_LT(slower, 2.5) << period;
  }
}

TEST(Faults, JitterDependsOnItsSeedOnly) {
  const auto with = [](const char* jitter) { return time_with("dgx-h100", {jitter}, 1 << 20); };
  EXPECT_EQ(with("jitter=exp:2us,7").ps(), with("jitter=exp:2us,7").ps());
  EXPECT_NE(with("jitter=exp:2us,7").ps(), with("jitter=exp:2us,8").ps());
  // A ring of eight takes 14 steps, each at least as late as the mean of the delays on its way.
  EXPECT_GT((with("jitter=uniform:2us") - time_with("dgx-h100", {}, 1 << 20)).us(), 14 * 2 * 0.5);
}

TEST(Faults, AMachineThatFallsApartIsRefusedWithThePair) {
  const std::vector<std::string> faults{"switch:0=down"};
  const auto faulted = apply_faults(topology::load_machine(kFour).value(), faults);
  ASSERT_FALSE(faulted.has_value());
  EXPECT_EQ(faulted.error().message, "with these faults node1/gpu0 cannot reach node0/gpu0");
}

TEST(Faults, WhatCannotBeReadIsNamed) {
  const auto machine = topology::load_machine("dgx-h100").value();
  for (const char* fault :
       {"nic", "nic=down", "nic:3=120%", "nic:99=down", "gpu:x=down", "link:gpu0=down", "link:gpu0-gpu1=down",
        "link:gpu0-nvswitch0=150%", "link:gpu0-nvswitch0=0%", "link:gpu0-nvswitch0=+5", "link:gpu0-nvswitch0=flap:1ms",
        "rank:99=slow:2x", "rank:1=slow:0.5x", "rank:1=fast", "jitter=exp", "jitter=exp:-1us", "jitter=normal:1us"}) {
    const std::vector<std::string> faults{fault};
    const auto faulted = apply_faults(machine, faults);
    ASSERT_FALSE(faulted.has_value()) << fault;
    EXPECT_EQ(faulted.error().blame, Blame::kInput);
    EXPECT_TRUE(faulted.error().message.starts_with("--fault ")) << faulted.error().message;
  }
}

}  // namespace
}  // namespace weft::simulate
