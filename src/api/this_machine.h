#pragma once

#include <memory>

#include "calibrate/calibrate.h"
#include "cost/machine_view.h"

namespace weft::api {

// This machine as the ranks of a real job see it: its cores. Made once per process and rates. Any thread.
// Errors: those of detection.
Result<std::shared_ptr<const cost::MachineView>> this_machine(const calibrate::Rates& rates);

// The same cores, where ranks reach each other by TCP alone. `ranks_here`: who share this machine's cores. Connections
// are as fast as `rates` say; where they do not, as fast as the shipped table says.
Result<cost::MachineView> this_network(const calibrate::Rates& rates, Rank ranks_here);

// Machines like this one that TCP joins, with so many ranks each; within a machine ranks share memory.
Result<cost::MachineView> these_machines(const calibrate::Rates& rates, int machines, Rank ranks_each);

}  // namespace weft::api
