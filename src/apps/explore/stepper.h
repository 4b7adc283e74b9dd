#pragma once

#include <string_view>

#include "base/report/explorer.h"
#include "model/sim/flow/disturbances.h"
#include "plan/cost/machine_view.h"
#include "plan/schedule/exchange/document.h"
#include "plan/schedule/lower/lower.h"

namespace weft::explore {

// Runs the schedule in the verifier, and where the machine is simulated on one channel gives every move its time. A
// schedule that is too large for that is followed (apps/explore/follow.h) with `chunk`.
// Errors: those of the simulation.
Status play(const cost::MachineView& machine, const sim::Disturbances& disturbances, const schedule::Task& task,
            schedule::Plan plan, schedule::ChunkId chunk, report::Explorer& e);

// Plays a schedule that is not proved up to its counterexample; times are counted in moves. `file` names it in the
// verdict. Requires: !prove(document).ok().
void play_wrong(const schedule::Document& document, std::string_view file, report::Explorer& e);

}  // namespace weft::explore
