#pragma once

#include "api/calibrate/calibrate.h"
#include "exec/executor.h"

namespace weft::api {

// Rank 0's rates, on all ranks of a communicator that nothing has been called on; all call this. Errors: as
// Executor::pause; kMismatch: what came is no rates.
Result<calibrate::Rates> share_rates(exec::Executor& executor, const calibrate::Rates& own);

}  // namespace weft::api
