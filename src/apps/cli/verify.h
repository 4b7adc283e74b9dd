#pragma once

#include <optional>

#include "apps/cli/common.h"

namespace weft::cli {

// Proves every registered algorithm for every number of ranks in `ranks` ("8" or "1..17") and every root, in place
// where that is allowed and not, staged where memory is touched and not, and in order where the algorithm says so. One
// line each; stops at the first counterexample.
Result<int> verify_all(const std::string& ranks, const std::string& json);

}  // namespace weft::cli
