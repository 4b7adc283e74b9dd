#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/simulate/simulate.h"

// One simulated run of a plan: of all ranks, or of those that stand for all.

namespace weft::simulate {

// The nodes that ranks sit on, in the order of ranks; empty: the machine's first ones.
using Nodes = std::vector<Rank>;

// An estimate of the operations of `ranks`: those of one in the middle, for each.
double operations_of(const schedule::Task& task, const schedule::Plan& plan, Rank ranks);

// Operations that are executed after fast-forwarding: few of many rounds, few of many repetitions.
double without_repetitions(const schedule::Task& task, const schedule::Plan& plan, Rank ranks);

// Simulates every rank. `total_steps` gets the steps of all runs added. Errors: of simulate.
Result<Outcome> run_all(const cost::MachineView& machine, const schedule::Task& task, const schedule::Plan& plan,
                        const Options& options, std::int64_t& total_steps, Nodes nodes = {});

// Folds by the least rotation that the algorithm claims and under which the machine looks the same, if there is one of
// at most `most` ranks. Errors: as run_all.
Result<std::optional<Outcome>> fold(const cost::MachineView& machine, const schedule::Task& task,
                                    const schedule::Plan& plan, const Options& options, Rank most,
                                    std::int64_t& total_steps, Nodes nodes = {});

// Simulates a part of the machine: every `apart`-th node, those of the most frequent class first. Errors: as run_all.
Result<Outcome> folded_or_full(const cost::MachineView& machine, const schedule::Task& task, const schedule::Plan& plan,
                               const Options& options, std::int64_t& total_steps, Rank apart);

}  // namespace weft::simulate
