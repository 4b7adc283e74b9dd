#pragma once

#include <string>

#include "base/result.h"
#include "plan/schedule/schedule.h"

namespace weft::schedule {

// A space-time diagram as SVG: ranks from top to bottom (their lanes below each other), time to the right, one column
// per level of the timeline; messages and accesses to peers' memory as arrows in the colour of their chunk, signals
// dashed. Requires: check(schedule).
// Errors (bad input): more steps than a picture can show.
Result<std::string> space_time_svg(const Schedule& schedule, std::string_view title);

}  // namespace weft::schedule
