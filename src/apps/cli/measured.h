#pragma once

#include "base/report/bench.h"
#include "plan/cost/machine_view.h"

namespace weft::cli {

// The range in which published measurements of such a collective on such GPUs would lie beside a simulated time of
// `bytes` on `ranks`; nothing where none, or too few, are known. Errors: the shipped ratios cannot be read.
Result<std::optional<report::Measured>> measured_beside(Duration time, const cost::MachineView& machine, Rank ranks,
                                                        Collective collective, Bytes bytes);
// "8 of 10 published rows"
std::string rows_inside(const report::Measured& measured);

}  // namespace weft::cli
