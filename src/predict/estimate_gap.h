#pragma once

#include <string>

#include "cost/estimate.h"
#include "simulate/simulate.h"

namespace weft::predict {

// Estimates that differ from the simulated time by more than this part of it are explained.
inline constexpr double kExplainedGap = 0.2;
// Does this one?
bool estimate_is_off(Duration estimate, Duration simulated);

// Where an estimate that is off and the simulated path part: "hops, 210 us instead of 60 us: …". Empty: the estimate is
// near, or the outcome does not say what its time was spent on (Options::why).
std::string estimate_gap(const cost::Estimate& estimate, const simulate::Outcome& outcome);

}  // namespace weft::predict
