#pragma once

#include "api/calibrate/calibrate.h"

namespace weft::cli {

// This machine's rates, those of UCX only if the transport uses it: as WEFT_RATES says (inside a job what the launcher
// handed down), else as they are kept, else measured now and kept. Errors (bad input): an unreadable WEFT_RATES.
Result<calibrate::Rates> rates_of_this_machine(const std::string& transport = "");

}  // namespace weft::cli
