#pragma once

#include <memory>

#include "api/calibrate/calibrate.h"
#include "plan/cost/machine_view.h"

namespace weft::api {

// This machine as the ranks of a real job see it: its cores. Made once per process and rates. Any thread.
// Errors: those of detection.
Result<std::shared_ptr<const cost::MachineView>> this_machine(const calibrate::Rates& rates);

// What carries messages between two ranks: TCP, or UCX within a machine or between two, where it has to report
// peers that end and cannot use shared memory.
enum class Carrier { kTcp, kUcx, kUcxAcross };

// The same cores, where all ranks reach each other by messages alone. `ranks_here`: who share this machine's cores.
// Messages are as fast as `rates` say; where they do not, as fast as the shipped table says.
Result<cost::MachineView> this_network(const calibrate::Rates& rates, Carrier carrier, Rank ranks_here);

// Machines like this one that messages join, with `ranks_each` ranks each. `within`: what carries messages inside a
// machine; null: its memory.
Result<cost::MachineView> these_machines(const calibrate::Rates& rates, Carrier across, int machines, Rank ranks_each,
                                         const Carrier* within = nullptr);

}  // namespace weft::api
