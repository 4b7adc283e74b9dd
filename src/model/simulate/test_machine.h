#pragma once

#include "exec/virtual_run.h"
#include "model/sim/flow/flow_fabric.h"
#include "plan/collectives/registry.h"
#include "plan/cost/shipped.h"

namespace weft::simulate {

// Nodes of one GPU; the even ones hang at one switch, the others at another. All links carry 20 GB/s, and
// take 0.5 us, so that packets have room for some behind each.
inline topology::Topology two_switches(std::int32_t nodes = 4) {
  using topology::DeviceId, topology::DeviceKind, topology::LinkKind;
  topology::Topology t;
  const auto join = [&](LinkKind kind, DeviceId a, DeviceId b) {
    const BytesPerSecond rate(20e9);
    const Duration latency = Duration::microseconds(0.5);
    t.connect({.kind = kind, .a = a, .b = b, .rate_ab = rate, .rate_ba = rate, .latency = latency});
  };
  const auto device = [&](DeviceKind kind, std::int32_t node, std::int32_t index) {
    return t.add({.kind = kind, .node = node, .index = index, .model = {}, .bus_id = {}, .port_rate = {}});
  };
  const DeviceId switches[] = {device(DeviceKind::kNetworkSwitch, -1, 0), device(DeviceKind::kNetworkSwitch, -1, 1)};
  join(LinkKind::kNetwork, switches[0], switches[1]);
  for (std::int32_t node = 0; node < nodes; ++node) {
    const DeviceId gpu = device(DeviceKind::kGpu, node, 0), pcie = device(DeviceKind::kPcieSwitch, node, 0);
    const DeviceId nic = device(DeviceKind::kNic, node, 0);
    join(LinkKind::kPcie, gpu, pcie);
    join(LinkKind::kPcie, nic, pcie);
    join(LinkKind::kNetwork, nic, switches[node % 2]);
  }
  return t;
}

// An endless broadcast from `first` to the next rank; its links carry 20 GB/s.
inline exec::VirtualJob broadcast(const cost::MachineView& machine, Rank first, int channels = 4) {
  const schedule::Task task{
      .collective = Collective::kBroadcast, .ranks = 2, .elements = Bytes{64} << 20, .element_bytes = 4};
  exec::VirtualJob job{.task = task, .calls = 0};
  job.plan = make_plan(task, **collectives::find_algorithm(Collective::kBroadcast, "ring"), protocol::Protocol::kSimple,
                       channels, sim::flow_capabilities(machine.topology(), 64), true);
  job.plan.first = first;
  return job;
}

}  // namespace weft::simulate
