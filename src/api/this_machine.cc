#include "api/this_machine.h"

#include <map>
#include <mutex>

#include "topology/detect/detect.h"

namespace weft::api {
namespace {

// Looking at the hardware takes a tenth of a second, and it does not change while a process runs; a program that makes
// many communicators looks once.
Result<topology::Topology> detected(const calibrate::Rates& rates) {
  static std::mutex mutex;
  static std::map<std::string, topology::Topology> known;  // by the rates
  const std::lock_guard guard(mutex);
  const std::string key = calibrate::to_text(rates);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  WEFT_TRY(auto topology, topology::detect(topology::ThisHost(),
                                           topology::MeasuredRates{.memory = rates.memory,
                                                                   .core = rates.core,
                                                                   .core_to_core = rates.core_to_core,
                                                                   .source = rates.source},
                                           topology::Endpoints::kCores));
  return known.emplace(key, std::move(topology)).first->second;
}

}  // namespace

Result<cost::MachineView> this_machine(const calibrate::Rates& rates) {
  WEFT_TRY(auto topology, detected(rates));
  return cost::MachineView(std::move(topology), protocol::HopCosts::shipped(protocol::HopCosts::Endpoint::kCpu),
                           {.own = rates.own_cache, .shared = rates.shared_cache, .rate = rates.shared});
}

Result<cost::MachineView> this_network(const calibrate::Rates& rates, Rank ranks_here) {
  WEFT_TRY(const cost::MachineView cores, this_machine(rates));
  protocol::HopCost hop = *cores.costs().find("NET", protocol::Protocol::kSimple);
  if (rates.tcp.ps() > 0 && rates.tcp_connection.value() > 0) {
    hop.least = rates.tcp;
    hop.overhead = rates.tcp * 0.5;  // the sending call delivers a packet to its own machine
    hop.channel = rates.tcp_connection;
  }
  hop.channel = hop.channel * (1.0 / cores.sharing(ranks_here));
  const Duration launch = *cores.costs().launch(protocol::Protocol::kSimple);
  return cost::MachineView(cores.topology(), protocol::HopCosts::over_network(hop, launch, cores.costs().rank_switch()),
                           cores.caches());
}

}  // namespace weft::api
