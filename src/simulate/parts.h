#pragma once

#include "simulate/runs.h"

// Times of large machines from those of parts of them.

namespace weft::simulate {

inline constexpr Rank kWorthwhile = 4;  // times as many nodes are worth continuing to

// Folded, else continued, else in full, or roughly. `sound`: of a machine whose nodes differ, as if all were of the
// most frequent class; then from a part of it in any case. Errors: of simulate.
Result<Outcome> with_least_work(const cost::MachineView& machine, const schedule::Task& task,
                                const schedule::Plan& plan, const Options& options, std::int64_t& carried_out,
                                bool sound = false);

}  // namespace weft::simulate
