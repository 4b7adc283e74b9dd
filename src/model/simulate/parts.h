#pragma once

#include "model/simulate/runs.h"

// Times of large machines from those of their parts.

namespace weft::simulate {

inline constexpr Rank kWorthwhile = 4;  // extrapolates only to at least this many times the nodes

// Takes the first that applies: folds, extrapolates, simulates in full if that is affordable, approximates. `sound`:
// simulates a machine whose nodes differ as if all were of the most frequent class, and only a part of it.
// `total_steps` grows by the steps of all runs. Errors: of simulate.
Result<Outcome> with_least_work(const cost::MachineView& machine, const schedule::Task& task,
                                const schedule::Plan& plan, const Options& options, std::int64_t& total_steps,
                                bool sound = false);

}  // namespace weft::simulate
