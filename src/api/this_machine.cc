#include "api/this_machine.h"

#include "topology/detect/detect.h"

namespace weft::api {

Result<cost::MachineView> this_machine(const calibrate::Rates& rates) {
  WEFT_TRY(auto topology, topology::detect(topology::ThisHost(),
                                           topology::MeasuredRates{.memory = rates.memory,
                                                                   .core = rates.core,
                                                                   .core_to_core = rates.core_to_core,
                                                                   .source = rates.source},
                                           topology::Endpoints::kCores));
  return cost::MachineView(std::move(topology), protocol::HopCosts::shipped(protocol::HopCosts::Endpoint::kCpu),
                           {.own = rates.own_cache, .shared = rates.shared_cache, .rate = rates.shared});
}

}  // namespace weft::api
