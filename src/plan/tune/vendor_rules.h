#pragma once

#include <optional>
#include <string>

#include "plan/cost/machine_view.h"
#include "plan/schedule/lower/plan.h"

namespace weft::tune {

// What a vendor's library would do, by the rules of data/protocol/vendor_rules.json.
struct VendorRule {
  std::string library, choice, source;
  std::string tuner;                // the library as `weft bench --tuner` calls it: "rccl"
  std::string algorithm, protocol;  // weft's names of the like
};
// Whether there are rules of the library that `weft bench --tuner` calls so: "rccl", "oneccl", "neuron".
bool has_vendor_rules(std::string_view library);
// The first rule that holds for this task on this machine; none: no library of its vendor has published any.
std::optional<VendorRule> vendor_rule(const cost::MachineView& machine, const schedule::Task& task);

}  // namespace weft::tune
