#pragma once

#include "apps/cli/common.h"

namespace weft::cli {

// Reads FILE.0, FILE.1, …, which the ranks of a PGAS program left (WEFT_PGAS_TRACE), and carries their operations out
// on a modelled machine; prints the outcome beside what was recorded. `compute`: see replay::Options. Errors (bad
// input): files that are missing, do not parse or do not belong together; see replay::run.
Result<int> replay_trace(const std::string& file, const std::string& on, double compute, const std::string& json);

}  // namespace weft::cli
