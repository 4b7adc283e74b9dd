#pragma once

#include "calibrate/calibrate.h"

namespace weft::cli {

// This machine's rates: inside a job those that the launcher measured, else measured now. Errors (bad input): an
// unreadable WEFT_RATES.
Result<calibrate::Rates> rates_of_this_machine();

}  // namespace weft::cli
