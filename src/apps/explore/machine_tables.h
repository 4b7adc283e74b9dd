#pragma once

#include <string>
#include <vector>

#include "base/report/explorer.h"
#include "plan/cost/machine_view.h"

namespace weft::explore {

// The first node with what it hangs at, as tables and weft's picture. `left`: what faults have left of the whole
// machine.
void describe(const cost::MachineView& whole, const cost::MachineView& left, report::Explorer& e);

// The device of each of the first `ranks` ranks; empty where some sit outside of the first node, or there are many.
std::vector<std::string> places_of(const cost::MachineView& machine, Rank ranks);

}  // namespace weft::explore
