#include "model/simulate/loads.h"

#include <gtest/gtest.h>

#include <map>

#include "machine/machine.h"
#include "model/simulate/simulate.h"
#include "model/simulate/test_machine.h"
#include "plan/cost/estimate.h"

namespace weft::simulate {
namespace {

cost::MachineView machine_of(const std::string& name) {
  return cost::shipped_view(topology::load_machine(name).value()).value();
}

// 64 MiB from node 0 to node 1, over the link between the two switches.
double slowdown(const std::vector<std::string>& loads, int channels = 4,
                std::optional<sim::PacketOptions> packets = std::nullopt) {
  const auto machine = cost::shipped_view(two_switches()).value();
  const exec::VirtualJob job = broadcast(machine, 0, channels);
  const auto background = background_of(machine, loads);
  EXPECT_TRUE(background) << (background ? "" : background.error().message);
  const auto alone = simulate(machine, job.task, job.plan, {.packets = packets});
  const auto loaded = simulate(machine, job.task, job.plan, {.background = *background, .packets = packets});
  EXPECT_TRUE(alone && loaded) << (loaded ? "" : loaded.error().message);
  return alone && loaded ? loaded->time / alone->time : 0;
}

TEST(Loads, LeaveAJobTheRestOfALink) {
  // Eight flows of 1.25 GB/s, less than their fair share of 20 GB/s among 12, so that the job has 10.
  EXPECT_NEAR(slowdown({"switch0-switch1=50%"}), 2, 0.02);
  EXPECT_NEAR(slowdown({"switch0-switch1=10GB/s"}), 2, 0.02);
  EXPECT_NEAR(slowdown({"switch0-switch1=80Gb/s"}), 2, 0.02);
}

TEST(Loads, TakeNoMoreThanTheirFairShare) {
  // One flow that asks for 10 GB/s beside the job's four: each has 4, the job 16 of 20.
  EXPECT_NEAR(slowdown({"switch0-switch1=50%,flows=1"}), 1.25, 0.02);
  EXPECT_NEAR(slowdown({"switch0-switch1=100%,flows=1"}, 1), 2, 0.02);
}

TEST(Loads, BetweenDevicesGoWhereTheirTrafficGoes) {
  EXPECT_NEAR(slowdown({"node2/nic0-node3/nic0=50%"}), 2, 0.02);
  EXPECT_NEAR(slowdown({"node0/nic0-node2/nic0=50%"}), 2, 0.02);  // over the link of node 0 only
}

TEST(Loads, OnOtherLinksDoNotMatter) { EXPECT_NEAR(slowdown({"node2/nic0-switch0=90%"}), 1, 1e-9); }

TEST(Loads, AsPacketsTakeTheSamePart) {
  // Bursts come at random times, and what queues behind them is not shared as fairly: a tenth either way.
  EXPECT_NEAR(slowdown({"switch0-switch1=50%"}, 4, sim::PacketOptions{}), 2, 0.2);
  EXPECT_NEAR(slowdown({"node2/nic0-switch0=50%"}, 4, sim::PacketOptions{}), 1, 0.01);
}

TEST(Loads, AreTheSameForOneSeedOnly) {
  const auto at = [](const char* load) { return slowdown({load}, 4, sim::PacketOptions{}); };
  EXPECT_EQ(at("switch0-switch1=50%,seed=3"), at("switch0-switch1=50%,seed=3"));
  EXPECT_NE(at("switch0-switch1=50%,seed=3"), at("switch0-switch1=50%,seed=4"));
}

TEST(Loads, AreSeenByEstimates) {
  auto machine = cost::shipped_view(two_switches()).value();
  const exec::VirtualJob job = broadcast(machine, 0);
  const double alone = cost::estimate(machine, job.task, job.plan)->total.s();
  const std::vector<std::string> loads{"switch0-switch1=50%"};
  machine.set_left(left_by(*background_of(machine, loads), machine.topology()));
  EXPECT_NEAR(cost::estimate(machine, job.task, job.plan)->total.s() / alone, 2, 0.05);
}

TEST(Loads, LeaveAtLeastAFairShare) {
  const auto machine = cost::shipped_view(two_switches()).value();
  const std::vector<std::string> loads{"switch0-switch1=100%,flows=3"};
  const auto left = left_by(*background_of(machine, loads), machine.topology());
  EXPECT_NEAR(left[0].gb(), 20.0 / 4, 1e-9);  // link 0 is the one between the switches
  EXPECT_NEAR(left[2].gb(), 20, 1e-9);
}

TEST(Loads, UniformAsksTheSameOfEveryNicInBothDirections) {
  const auto machine = machine_of("dgx-h100:nodes=5,net=ib-ndr,wires=switch");
  const std::vector<std::string> loads{"uniform=30%,flows=4"};
  const auto background = background_of(machine, loads);
  ASSERT_TRUE(background);
  EXPECT_EQ(background->streams.size(), 5u * 8 * 4);
  std::map<topology::DeviceId, double> out, in;
  const topology::Topology& t = machine.topology();
  for (const auto& stream : background->streams) {
    const topology::Hop first = stream.path.hops.front(), last = stream.path.hops.back();
    const topology::DeviceId from = first.forward ? t.link(first.link).a : t.link(first.link).b;
    const topology::DeviceId to = last.forward ? t.link(last.link).b : t.link(last.link).a;
    EXPECT_NE(t.device(from).node, t.device(to).node);
    out[from] += stream.rate.gb();
    in[to] += stream.rate.gb();
  }
  EXPECT_EQ(out.size(), 40u);
  EXPECT_EQ(in.size(), 40u);
  for (const auto& [nic, rate] : out) EXPECT_NEAR(rate, 0.3 * 50, 1e-9);
  for (const auto& [nic, rate] : in) EXPECT_NEAR(rate, 0.3 * 50, 1e-9);
}

TEST(Loads, ThatCannotBeReadAreNamed) {
  const auto machine = machine_of("dgx-h100:nodes=2,net=ib-ndr");
  for (const char* load : {"switch0", "uniform", "uniform=lots", "uniform=130%", "uniform=30%,flows=0",
                           "uniform=30%,flow=2", "gpu0-gpu9=10%", "node0/nic0-node0/nic0=10%",
                           "node0/nic0-switch0=900GB/s", "uniform=-3%", "uniform=30%,", "uniform=30%,seed=x"}) {
    const std::vector<std::string> loads{load};
    const auto background = background_of(machine, loads);
    ASSERT_FALSE(background) << load;
    EXPECT_NE(background.error().message.find(load), std::string::npos) << background.error().message;
    EXPECT_EQ(background.error().blame, Blame::kInput);
  }
}

}  // namespace
}  // namespace weft::simulate
