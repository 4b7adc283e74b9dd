#pragma once

#include "plan/schedule/verify/execution.h"

namespace weft::schedule::symbolic {

// Reports the first thing that is wrong once no strand can go on: one that has not ended, something sent that nobody
// took, a result that is not the collective's, memory that is still in use as its rank returns.
void check_ending(const Schedule& schedule, Execution& execution, int slots, Report& report);

}  // namespace weft::schedule::symbolic
