#pragma once

#include <string>

#include "model/sim/flow/computing.h"
#include "plan/cost/machine_view.h"
#include "plan/schedule/lower/lower.h"

namespace weft::simulate {

// A kernel beside a collective, from its text, on `ranks` GPUs:
//   5ms                    its time alone on all multiprocessors of the GPU; how many it has is in the catalogue
//   …,multiprocessors=120  or this many
//   …,by=copy-engine       the collective's data is moved by copy engines, which hold none (by=sm if not given)
// Errors (bad input): names what cannot be read; a machine without GPUs, or whose GPUs have no such figure.
Result<sim::Computing> computing_of(const cost::MachineView& machine, Rank ranks, const std::string& text);

// Chips whose collectives run on engines of their own (AWS's CC-Cores): they take nothing from what computes.
bool has_collective_engines(const cost::MachineView& machine);

// Checks that copy engines can run the plan, if they are asked to. They load and store, and do not sum.
// Errors (bad input): says why not.
Status check_engine(const schedule::Plan& plan, const schedule::Task& task, const sim::Computing& computing);

// How much of the shorter of two things is hidden behind the other: 1 all of it, 0 nothing; below 0: they take longer
// together than one after the other.
double overlap(Duration one, Duration other, Duration together);

}  // namespace weft::simulate
