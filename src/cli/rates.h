#pragma once

#include "calibrate/calibrate.h"

namespace weft::cli {

// This machine's rates, those of UCX only if the transport uses it: inside a job what the launcher measured, else
// measured now. Errors (bad input): an
// unreadable WEFT_RATES.
Result<calibrate::Rates> rates_of_this_machine(const std::string& transport = "");

}  // namespace weft::cli
