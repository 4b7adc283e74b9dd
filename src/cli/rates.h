#pragma once

#include "calibrate/calibrate.h"

namespace weft::cli {

// This machine's measured rates: from WEFT_RATES inside a job, else from the cache, else measured now (half a second)
// and cached. Errors (bad input): an unreadable WEFT_RATES.
Result<calibrate::Rates> rates_of_this_machine();

}  // namespace weft::cli
