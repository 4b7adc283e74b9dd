#include "api/this_machine.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "machine/detect/detect.h"

namespace weft::api {
namespace {

using Machine = std::shared_ptr<const cost::MachineView>;

// The cores, which are read once: ranks look at them with the rates that they have, and again with those that all
// share.
class CoresReadOnce : public topology::HostProbe {
 public:
  Result<topology::HwlocTopology> read() const override {
    static const Result<topology::HwlocTopology> host =
        topology::ThisHost(topology::ThisHost::Devices::kLeftOut).read();
    if (!host) return tl::make_unexpected(host.error());
    hwloc_topology_t copy = nullptr;
    if (hwloc_topology_dup(&copy, host->get()) != 0)
      return failure(Code::kSystem, Blame::kProcess, "hwloc_topology_dup failed");
    return topology::HwlocTopology(copy);
  }
};

Result<Machine> look(const calibrate::Rates& rates) {
  WEFT_TRY(auto topology, topology::detect(CoresReadOnce(),
                                           topology::MeasuredRates{.memory = rates.memory,
                                                                   .core = rates.core,
                                                                   .core_to_core = rates.core_to_core,
                                                                   .source = rates.source},
                                           topology::Endpoints::kCores));
  const cost::CpuCaches caches{.own = rates.own_cache, .shared = rates.shared_cache, .rate = rates.shared};
  auto costs = protocol::HopCosts::shipped(protocol::HopCosts::Endpoint::kCpu).between_cores(rates.core_to_core);
  // Either end of a message reads or writes its own memory as well, which the model counts by itself. What is left is
  // at most as fast as a core copies.
  const auto slot = [&](BytesPerSecond copied) {
    return BytesPerSecond(1 / std::max(1 / copied.value() - 1 / rates.core.value(), 1 / rates.core.value()));
  };
  if (rates.plain_slots.value() > 0 && rates.streamed_slots.value() > 0)
    costs = costs.with_slots(slot(rates.plain_slots), slot(rates.streamed_slots));
  return std::make_shared<const cost::MachineView>(std::move(topology), std::move(costs), caches);
}

}  // namespace

// Looking at the hardware takes a twentieth of a second, and it does not change while a process runs; a program that
// makes many communicators looks once.
Result<Machine> this_machine(const calibrate::Rates& rates) {
  static std::mutex mutex;
  static std::map<std::string, Machine> known;  // by the rates
  const std::lock_guard guard(mutex);
  Machine& machine = known[calibrate::to_text(rates)];
  if (!machine) {
    WEFT_TRY(machine, look(rates));
  }
  return machine;
}

namespace {

using topology::DeviceKind;

// A carrier in the table of costs, and as measured.
struct Known {
  const char* path;
  Duration trip;
  BytesPerSecond rate;
};
Known known(const calibrate::Rates& rates, Carrier carrier) {
  switch (carrier) {
    case Carrier::kUcx:
      return {"UCX", rates.ucx, rates.ucx_connection};
    case Carrier::kUcxAcross:
      return {"UCX-NET", rates.ucx_across, rates.ucx_across_connection};
    case Carrier::kTcp:
      break;
  }
  return {"NET", rates.tcp, rates.tcp_connection};
}

// The cost of a message between ranks when several share a core. Everything that a core's ranks send and receive then
// delays each of them, and so does their polling.
protocol::HopCost hop_of(const cost::MachineView& cores, const calibrate::Rates& rates, Carrier carrier,
                         Rank ranks_here) {
  const protocol::HopCosts::Factors& factors = cores.costs().factors();
  const int sharing = cores.sharing(ranks_here);
  const Known measured = known(rates, carrier);
  protocol::HopCost hop = *cores.costs().find(measured.path, protocol::Protocol::kSimple);
  if (measured.trip.ps() > 0 && measured.rate.value() > 0) {
    // The sender's share of the time stays as shipped.
    hop.overhead = measured.trip * (hop.overhead.us() / hop.least.us());
    hop.least = measured.trip;
    hop.channel = measured.rate;
  }
  if (sharing > 1) {
    const Duration alone = hop.least - hop.overhead, trip = hop.least;
    hop.overhead = (hop.overhead + trip * factors.receive) * sharing;
    hop.least = hop.overhead + alone + trip * (factors.poll * (sharing - 1));
  }
  hop.channel = hop.channel * (1.0 / sharing);
  return hop;
}

// What a message through memory costs where every rank has a place of its own in the model; those that share a core
// wait for their turn.
protocol::HopCost memory_hop(const cost::MachineView& cores, const calibrate::Rates& rates, Rank ranks_here) {
  protocol::HopCost hop = *cores.costs().find("PHB", protocol::Protocol::kSimple);
  const int sharing = cores.sharing(ranks_here);
  hop.least = std::max({hop.least, rates.core_to_core * hop.trips, cores.costs().scheduling_delay(sharing)});
  hop.channel = protocol::HopCosts::channel(hop, sharing) * (1.0 / sharing);
  return hop;
}

// Machines side by side, each a CPU with one place per rank; a switch joins them. Only what kind of path joins two
// ranks counts here: rates and latencies of hops are in the table of costs.
topology::Topology side_by_side(int machines, Rank ranks_each, BytesPerSecond core, Duration latency) {
  topology::Topology all;
  all.title = fmt::format("{} machines", machines);
  const auto net = all.add({.kind = DeviceKind::kNetworkSwitch});
  const auto join = [&](topology::LinkKind kind, topology::DeviceId a, topology::DeviceId b) {
    all.connect({.kind = kind, .a = a, .b = b, .rate_ab = core, .rate_ba = core, .latency = latency});
  };
  for (int node = 0; node < machines; ++node) {
    const auto cpu = all.add({.kind = DeviceKind::kCpu, .node = node});
    const auto nic = all.add({.kind = DeviceKind::kNic, .node = node});
    join(topology::LinkKind::kPcie, cpu, nic);
    join(topology::LinkKind::kNetwork, nic, net);
    for (Rank r = 0; r < ranks_each; ++r)
      join(topology::LinkKind::kMemory, all.add({.kind = DeviceKind::kCore, .node = node, .index = r}), cpu);
  }
  return all;
}

}  // namespace

Result<cost::MachineView> this_network(const calibrate::Rates& rates, Carrier carrier, Rank ranks_here) {
  WEFT_TRY(const Machine cores, this_machine(rates));
  const protocol::HopCost hop = hop_of(*cores, rates, carrier, ranks_here);
  const Duration launch = *cores->costs().launch(protocol::Protocol::kSimple);
  const auto costs = protocol::HopCosts::over_network(hop, launch, cores->costs().rank_switch());
  return cost::MachineView(cores->topology(), costs.with_factors(cores->costs().factors()), cores->caches());
}

Result<cost::MachineView> these_machines(const calibrate::Rates& rates, Carrier across, int machines, Rank ranks_each,
                                         const Carrier* within_by) {
  WEFT_TRY(const Machine machine, this_machine(rates));
  const cost::MachineView& cores = *machine;
  const protocol::HopCost within =
      within_by != nullptr ? hop_of(cores, rates, *within_by, ranks_each) : memory_hop(cores, rates, ranks_each);
  const auto costs = protocol::HopCosts::over_network(
      hop_of(cores, rates, across, ranks_each), *cores.costs().launch(protocol::Protocol::kSimple),
      cores.costs().rank_switch(), &within, cores.costs().streams(cores.sharing(ranks_each)));
  return cost::MachineView(side_by_side(machines, ranks_each, cores.core_rate(), rates.core_to_core * 0.5),
                           costs.with_factors(cores.costs().factors()), cores.caches());
}

}  // namespace weft::api
