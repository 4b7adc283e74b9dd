#include <gtest/gtest.h>

#include "collectives/registry.h"
#include "cost/shipped.h"
#include "sim/flow/flow_fabric.h"
#include "simulate/simulate.h"
#include "topology/machine.h"

namespace weft::simulate {
namespace {

using topology::DeviceId;
using topology::DeviceKind;
using topology::LinkKind;

// Four nodes of one GPU; 0 and 2 hang at one switch, 1 and 3 at another. All links carry 20 GB/s.
topology::Topology two_switches() {
  topology::Topology t;
  const auto join = [&](LinkKind kind, DeviceId a, DeviceId b) {
    t.connect({.kind = kind, .a = a, .b = b, .rate_ab = BytesPerSecond(20e9), .rate_ba = BytesPerSecond(20e9)});
  };
  const auto device = [&](DeviceKind kind, std::int32_t node, std::int32_t index) {
    return t.add({.kind = kind, .node = node, .index = index, .model = {}, .bus_id = {}, .port_rate = {}});
  };
  const DeviceId switches[] = {device(DeviceKind::kNetworkSwitch, -1, 0), device(DeviceKind::kNetworkSwitch, -1, 1)};
  join(LinkKind::kNetwork, switches[0], switches[1]);
  for (std::int32_t node = 0; node < 4; ++node) {
    const DeviceId gpu = device(DeviceKind::kGpu, node, 0), pcie = device(DeviceKind::kPcieSwitch, node, 0);
    const DeviceId nic = device(DeviceKind::kNic, node, 0);
    join(LinkKind::kPcie, gpu, pcie);
    join(LinkKind::kPcie, nic, pcie);
    join(LinkKind::kNetwork, nic, switches[node % 2]);
  }
  return t;
}

exec::VirtualJob broadcast(const cost::MachineView& machine, Rank first) {
  const schedule::Task task{
      .collective = Collective::kBroadcast, .ranks = 2, .elements = Bytes{64} << 20, .element_bytes = 4};
  exec::VirtualJob job{.task = task, .calls = 0};
  job.plan = make_plan(task, **collectives::find_algorithm(Collective::kBroadcast, "ring"), protocol::Protocol::kSimple,
                       4, sim::flow_capabilities(machine.topology(), 64), true);
  job.plan.first = first;
  return job;
}

double slowdown(const cost::MachineView& machine, Rank first) {
  const exec::VirtualJob own = broadcast(machine, 0), other = broadcast(machine, first);
  const auto alone = simulate(machine, own.task, own.plan),
             beside = simulate(machine, own.task, own.plan, {.beside = {other}});
  EXPECT_TRUE(alone && beside) << (beside ? "" : beside.error().message);
  return alone && beside ? beside->time / alone->time : 0;
}

TEST(Beside, TwoJobsThatShareALinkTakeTwiceAsLong) {
  const auto machine = cost::shipped_view(two_switches()).value();
  EXPECT_NEAR(slowdown(machine, 2), 2, 0.02);  // 0 -> 1 and 2 -> 3
}

TEST(Beside, JobsOnOtherLinksDoNotMatter) {
  const auto machine = cost::shipped_view(topology::load_machine("dgx-h100:nodes=4,net=ib-ndr,wires=switch").value());
  ASSERT_TRUE(machine.has_value());
  EXPECT_NEAR(slowdown(*machine, 8), 1, 1e-9);
}

TEST(Beside, APausingJobTakesLess) {
  // One call beside: half of the time shares the link, and the rest has it alone. The other's 64 MiB and this one's
  // 256 MiB: 2 * 64 + 192 = 320 of 256.
  const auto machine = cost::shipped_view(two_switches()).value();
  const exec::VirtualJob own = broadcast(machine, 0);
  exec::VirtualJob other = broadcast(machine, 2);
  other.task.elements /= 4;
  other.calls = 1;
  const auto alone = simulate(machine, own.task, own.plan),
             beside = simulate(machine, own.task, own.plan, {.beside = {other}});
  ASSERT_TRUE(alone && beside);
  EXPECT_NEAR(beside->time / alone->time, 1.25, 0.02);
}

}  // namespace
}  // namespace weft::simulate
