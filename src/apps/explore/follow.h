#pragma once

#include "base/report/explorer.h"
#include "model/sim/flow/disturbances.h"
#include "plan/cost/machine_view.h"
#include "plan/schedule/lower/lower.h"
#include "plan/schedule/step.h"

namespace weft::explore {

// Verifies the whole schedule and keeps the moves of one chunk, for schedules that are too large to show all. Times are
// simulated where ranks that do the same can be folded or few operations are left; else moves are counted along the
// longest chain of steps. Leaves `played` false, and says why, where even that is too large. `chunk` below 0: the
// first. Errors: the chunk does not exist (bad input); those of the simulation.
Status follow(const cost::MachineView& machine, const sim::Disturbances& disturbances, const schedule::Task& task,
              schedule::Plan plan, schedule::ChunkId chunk, report::Explorer& e);

}  // namespace weft::explore
