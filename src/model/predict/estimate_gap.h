#pragma once

#include <string>

#include "model/simulate/simulate.h"
#include "plan/cost/estimate.h"

namespace weft::predict {

// Estimates that differ from the simulated time by more than this part of it are explained.
inline constexpr double kExplainedGap = 0.2;
// Is this one of them?
bool estimate_is_off(Duration estimate, Duration simulated);

// Where an estimate that is off and the simulated path part: "the estimate is 50 % longer: launch and hops 190.0 us
// instead of 50.0, …; REASON". Empty: the estimate is near, or the outcome does not say what its time was spent on
// (Options::why).
std::string estimate_gap(const cost::Estimate& estimate, const simulate::Outcome& outcome);

}  // namespace weft::predict
