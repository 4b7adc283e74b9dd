#pragma once

#include "simulate/runs.h"

// Large machines whose nodes differ: faults, slow ranks.

namespace weft::simulate {

// Nodes differ, and all of them in full would take minutes. The healthy machine is extrapolated, as always, and what
// the odd nodes make of it is seen on a few nodes: with them and without, in three roles, since where a node sits in a
// tree counts. The answer is the worst of these, its bounds are all of them.
Result<Outcome> by_pairs(const cost::MachineView& machine, const schedule::Task& task, const schedule::Plan& plan,
                         const Options& options, std::int64_t& carried_out);

}  // namespace weft::simulate
