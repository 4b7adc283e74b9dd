#pragma once

#include "calibrate/calibrate.h"
#include "cost/machine_view.h"

namespace weft::api {

// This machine as the ranks of a real job see it: its cores.
// Errors: those of detection.
Result<cost::MachineView> this_machine(const calibrate::Rates& rates);

}  // namespace weft::api
