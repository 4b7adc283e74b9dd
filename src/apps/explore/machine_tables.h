#pragma once

#include "base/report/explorer.h"
#include "plan/cost/machine_view.h"

namespace weft::explore {

// The first node with what it hangs at, as tables and weft's picture. `left`: what faults have left of the whole
// machine.
void describe(const cost::MachineView& whole, const cost::MachineView& left, report::Explorer& e);

}  // namespace weft::explore
