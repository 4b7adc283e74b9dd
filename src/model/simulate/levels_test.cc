#include <gtest/gtest.h>

#include "machine/machine.h"
#include "model/sim/flow/flow_fabric.h"
#include "model/simulate/simulate.h"
#include "plan/collectives/registry.h"
#include "plan/cost/shipped.h"

namespace weft::simulate {
namespace {

using protocol::Protocol;

struct Case {
  const char* machine;
  const char* algorithm;
  Protocol protocol;
  int channels;
};

cost::MachineView machine_of(const std::string& name) {
  return cost::shipped_view(topology::load_machine(name).value()).value();
}

Result<Outcome> all_reduce(const cost::MachineView& machine, const Case& c, Bytes bytes, const Options& options) {
  const Rank ranks = machine.endpoints();
  const schedule::Task task{
      .ranks = ranks, .ranks_per_node = machine.ranks_per_node(ranks), .elements = bytes / 4, .element_bytes = 4};
  const auto& algorithm = **collectives::find_algorithm(Collective::kAllReduce, c.algorithm);
  const auto plan =
      make_plan(task, algorithm, c.protocol, c.channels, sim::flow_capabilities(machine.topology(), 64), true);
  return simulate(machine, task, plan, options);
}

// Packets only add a header, or a packet, per switch where nothing queues: in rings over switches, switches that copy
// and sum, a network that stores and forwards.
class BothLevels : public testing::TestWithParam<Case> {};

TEST_P(BothLevels, AgreeWhereNothingQueues) {
  const cost::MachineView machine = machine_of(GetParam().machine);
  for (const Bytes bytes : {Bytes{8} << 10, Bytes{512} << 10, Bytes{8} << 20}) {
    const auto flows = all_reduce(machine, GetParam(), bytes, {.fold = false, .fast_forward = false});
    const auto packets = all_reduce(machine, GetParam(), bytes, {.packets = sim::PacketOptions{}});
    ASSERT_TRUE(flows && packets) << (packets ? "" : packets.error().message);
    EXPECT_NEAR(packets->time / flows->time, 1, 0.03) << bytes;
    EXPECT_GT(packets->packets.sent, 0);
    EXPECT_EQ(packets->packets.lost, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Machines, BothLevels,
    testing::Values(Case{"dgx-h100", "ring", Protocol::kSimple, 1}, Case{"dgx-h100", "ring", Protocol::kLL128, 4},
                    Case{"dgx-h100", "ring", Protocol::kLL, 1}, Case{"dgx-h100", "nvls", Protocol::kSimple, 4},
                    Case{"hgx-b200", "two_shot", Protocol::kDirect, 8}, Case{"dgx-a100", "tree", Protocol::kSimple, 1},
                    Case{"pcie-4x4090-p2p", "ring", Protocol::kSimple, 1},
                    Case{"dgx-h100:nodes=2,net=ib-ndr", "ring", Protocol::kSimple, 8},
                    Case{"dgx-h100:nodes=2,net=ib-ndr", "ring", Protocol::kLL128, 8},
                    Case{"dgx-h100:nodes=2,net=ib-ndr,sharp=on", "collnet_chain", Protocol::kSimple, 4},
                    Case{"dgx-h100:nodes=2,net=roce-400", "ring", Protocol::kSimple, 8}),
    [](const auto& info) { return fmt::format("Case{}", info.index); });

TEST(PacketLevel, ShowsWhatQueuesCost) {
  // GPUs that relay for each other: an output takes turns among queues, so that what comes from afar gets less than its
  // fair share of flows; without virtual queues a packet for a busy link holds up others, too.
  const cost::MachineView machine = machine_of("dgx1-v100");
  const Case two_shot{"", "two_shot", Protocol::kDirect, 1};
  const auto flows = all_reduce(machine, two_shot, 4 << 20, {});
  const auto with = all_reduce(machine, two_shot, 4 << 20, {.packets = sim::PacketOptions{}});
  const auto without = all_reduce(machine, two_shot, 4 << 20, {.packets = sim::PacketOptions{.virtual_queues = false}});
  ASSERT_TRUE(flows && with && without);
  EXPECT_GT(with->time / flows->time, 1.3);
  EXPECT_GT(without->time / with->time, 1.05);
}

TEST(PacketLevel, RetriesMakeItSlower) {
  const cost::MachineView machine = machine_of("dgx-h100");
  const Case ring{"", "ring", Protocol::kLL128, 16};
  const auto clean = all_reduce(machine, ring, 4 << 20, {.packets = sim::PacketOptions{}});
  const auto noisy = all_reduce(machine, ring, 4 << 20, {.packets = sim::PacketOptions{.bit_error_rate = 1e-6}});
  ASSERT_TRUE(clean && noisy);
  EXPECT_GT(noisy->packets.retried, 0);
  EXPECT_GT(noisy->time, clean->time);
}

TEST(PacketLevel, TooLittleRoomInACircleOfLinksIsADeadlock) {
  // Chips that pass packets on around rings: with room for one packet per link each waits for the next one's.
  const cost::MachineView machine = machine_of("ipu-pod16");
  const schedule::Task task{
      .collective = Collective::kAllToAll, .ranks = 16, .ranks_per_node = 16, .elements = 16 << 10, .element_bytes = 4};
  const auto& direct = **collectives::find_algorithm(Collective::kAllToAll, "direct");
  const auto plan =
      make_plan(task, direct, Protocol::kDirect, 16, sim::flow_capabilities(machine.topology(), 64), true);
  const auto stuck = simulate(machine, task, plan, {.packets = sim::PacketOptions{.buffer = 1}});
  ASSERT_FALSE(stuck.has_value());
  EXPECT_NE(stuck.error().message.find("wait for each other's room"), std::string::npos) << stuck.error().message;
  EXPECT_TRUE(simulate(machine, task, plan, {.packets = sim::PacketOptions{}}).has_value());
}

TEST(PacketLevel, ATimelineShowsBusyLinks) {
  std::string trace;
  const auto outcome = all_reduce(machine_of("dgx-h100"), {"", "ring", Protocol::kSimple, 1}, 64 << 10,
                                  {.packets = sim::PacketOptions{}, .trace = &trace});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_NE(trace.find("gpu0 -> nvswitch0"), std::string::npos);
}

TEST(PacketLevel, StopsAfterTooManyEvents) {
  const auto outcome = all_reduce(machine_of("dgx-h100"), {"", "ring", Protocol::kSimple, 1}, 1 << 20,
                                  {.max_events = 1000, .packets = sim::PacketOptions{}});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_TRUE(outcome.error().message.starts_with("stopped after 1000 events at ")) << outcome.error().message;
}

TEST(PacketLevel, IsForGpusAndSteadyLinks) {
  sim::Disturbances flapping;
  flapping.flaps.push_back({0, Duration::microseconds(10), 0.5});
  EXPECT_EQ(check_packets(machine_of("dgx-h100"), {}, flapping).error().blame, Blame::kInput);
  EXPECT_TRUE(check_packets(machine_of("dgx-h100"), {}, {}).has_value());
}

TEST(PacketLevel, RefusesOptionsThatChangeNothingOnTheMachine) {
  const auto refused = [](const char* machine, const char* options) {
    const Status said = check_packets(machine_of(machine), sim::PacketOptions::parse(options).value(), {});
    return said ? std::string() : said.error().message;
  };
  const char *one_switch = "dgx-h100:nodes=2,net=ib-ndr", *lossy = "dgx-h100:nodes=2,net=roce-400",
             *spines = "dgx-h100:nodes=64,net=roce-400";
  EXPECT_NE(refused(one_switch, "spread=spray").find("spread=spray has no effect"), std::string::npos);
  EXPECT_EQ(refused(spines, "spread=adaptive"), "");
  for (const char* of_ethernet :
       {"loss=0.1%", "pfc=off", "dcqcn=off", "recovery=selective", "timeout=1ms", "alpha=2"}) {
    EXPECT_NE(refused(one_switch, of_ethernet).find("no link of"), std::string::npos) << of_ethernet;
    EXPECT_EQ(refused(lossy, of_ethernet), "") << of_ethernet;
  }
  EXPECT_NE(refused(one_switch, "buffer=64").find("less than a packet"), std::string::npos);
  EXPECT_EQ(refused(one_switch, "buffer=64K,spread=flow,voq=off"), "");
}

}  // namespace
}  // namespace weft::simulate
