#pragma once

#include "model/simulate/runs.h"

// Large machines whose nodes differ, by faults or slow ranks.

namespace weft::simulate {

// Used where a full simulation would take minutes. The healthy machine is extrapolated as always; the ratio of faulty
// to healthy is simulated on a few nodes, with the odd nodes and without, in three roles, since a node's place in a
// tree counts. The answer is the worst of these, its bounds enclose all of them.
Result<Outcome> by_pairs(const cost::MachineView& machine, const schedule::Task& task, const schedule::Plan& plan,
                         const Options& options, std::int64_t& total_steps);

}  // namespace weft::simulate
