#include "cost/limit.h"

#include <algorithm>

#include "base/text.h"
#include "topology/switched_paths.h"

namespace weft::cost {
namespace {

using topology::DeviceKind;
using topology::LinkKind;

void tighten(Limit& limit, Duration time, std::string resource) {
  if (time > limit.time) limit = {time, std::move(resource), {}};
}

// What a rank's device can send to others: over its scale-up links where it has them (not those to its CPU), else over
// PCIe.
BytesPerSecond port_rate(const MachineView& machine, topology::DeviceId device) {
  BytesPerSecond fabric, pcie;
  for (const topology::LinkId id : machine.topology().links_of(device)) {
    const topology::Link& l = machine.topology().link(id);
    const BytesPerSecond out = l.a == device ? l.rate_ab : l.rate_ba;
    const bool to_host = machine.topology().device(machine.topology().other_end(id, device)).kind == DeviceKind::kCpu;
    if (is_scale_up(l.kind) && !to_host) fabric = fabric + out;
    if (l.kind == LinkKind::kPcie) pcie = pcie + out;
  }
  return fabric.value() > 0 ? fabric : pcie;
}

BytesPerSecond nic_rate(const MachineView& machine, std::int32_t node) {
  BytesPerSecond sum;
  for (const topology::Link& l : machine.topology().links()) {
    if (l.kind != LinkKind::kNetwork) continue;
    const bool from_a = machine.topology().device(l.a).node == node,
               from_b = machine.topology().device(l.b).node == node;
    if (from_a != from_b) sum = sum + (from_a ? l.rate_ab : l.rate_ba);
  }
  return sum;
}

// Messages that each rank must send. Where switches sum, an all_reduce's goes out once and comes back once.
double port_factor(const MachineView& machine, Collective collective, Rank ranks, DeviceKind between) {
  const double factor = schedule::bus_factor(collective, ranks);
  return collective == Collective::kAllReduce && topology::switches_sum(machine.topology(), between)
             ? std::min(factor, 1.0)
             : factor;
}

void limit_gpus(Limit& limit, const MachineView& machine, const schedule::Task& task, double bytes) {
  using enum DeviceKind;
  const Rank per_node = machine.ranks_per_node(task.ranks), nodes = machine.nodes(task.ranks);
  const BytesPerSecond port = port_rate(machine, machine.device(0));
  // Every rank must send what nccl-tests calls the bus traffic; inside a node through its port, else through its NIC.
  if (port.value() > 0 && per_node > 1)
    tighten(limit,
            Duration::seconds(bytes * port_factor(machine, task.collective, task.ranks, kNvSwitch) / port.value()),
            "GPU port " + format_rate(port));
  // The same holds for nodes as if they were ranks.
  if (const BytesPerSecond nics = nic_rate(machine, 0); nodes > 1 && nics.value() > 0)
    tighten(limit,
            Duration::seconds(bytes * port_factor(machine, task.collective, nodes, kNetworkSwitch) / nics.value()),
            "node's NICs " + format_rate(nics));
  // And starting plus one hop to the farthest rank, with the fastest protocol.
  Duration fastest = Duration::max();
  for (const protocol::Protocol p : protocol::kProtocols) {
    const topology::Path path = machine.path(0, task.ranks - 1);
    const protocol::HopCost* hop = machine.costs().find(name(path.type), p);
    if (const Duration* launch = machine.costs().launch(p); hop != nullptr && launch != nullptr)
      fastest = std::min(fastest, *launch + machine.costs().latency(*hop, path.latency, 1));
  }
  if (fastest < Duration::max()) tighten(limit, fastest, "launch and one hop");
}

void limit_cpus(Limit& limit, const MachineView& machine, const schedule::Task& task, double bytes) {
  // Every contribution is read once, every result written once; one part for each rank of an all_gather's inputs or a
  // reduce_scatter's outputs.
  const bool parts_in = task.collective == Collective::kAllGather,
             parts_out = task.collective == Collective::kReduceScatter;
  const double reads = parts_in || task.collective == Collective::kBroadcast ? 1 : task.ranks;
  const double touched = bytes * (reads + (parts_out ? 1 : task.ranks));
  if (machine.costs().network() && task.ranks > 1) {
    // Every rank's core sends and receives the bus traffic, and nothing arrives sooner than a message can.
    const protocol::HopCost& hop = *machine.costs().find("NET", protocol::Protocol::kSimple);
    tighten(limit,
            Duration::seconds(2 * bytes * schedule::bus_factor(task.collective, task.ranks) / hop.channel.value()),
            "connection " + format_rate(hop.channel));
    tighten(limit, hop.least, "one message");
    return;
  }
  const auto level = machine.level_of(static_cast<Bytes>(touched), task.ranks);
  tighten(limit, Duration::seconds(touched / level.rate.value()),
          fmt::format("{} {}", level.name, format_rate(level.rate)));
  tighten(limit, machine.path(0, task.ranks > 1 && machine.endpoints() > 1 ? 1 : 0).latency, "one cache line");
  // Ranks that share a core must each run once; but where data flows one way, the root may be calls ahead.
  if (const int sharing = machine.sharing(task.ranks); sharing > 1 && !schedule::rooted(task.collective))
    tighten(limit, machine.costs().least_turn(sharing), "context switch");
}

}  // namespace

Limit limit(const MachineView& machine, const schedule::Task& task) {
  Limit limit{Duration::picoseconds(1), "latency", {}};
  const double bytes = static_cast<double>(task.elements * task.element_bytes);
  machine.costs().gpu() ? limit_gpus(limit, machine, task, bytes) : limit_cpus(limit, machine, task, bytes);
  limit.bus_rate = BytesPerSecond(bytes * schedule::bus_factor(task.collective, task.ranks) / limit.time.s());
  return limit;
}

}  // namespace weft::cost
