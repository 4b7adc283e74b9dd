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
// What a link that is busy all the time has to do with a time far from the least possible; empty where it is not far.
std::string_view plans_own_limit(double busiest_share, double of_least);
// "slower" or "faster" than a time outside the range; empty: it lies inside.
std::string_view published_are(Duration time, const report::Measured& measured);

}  // namespace weft::cli
