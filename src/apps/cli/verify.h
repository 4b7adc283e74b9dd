#pragma once

#include <optional>

#include "apps/cli/common.h"
#include "apps/cli/schedule_source.h"

namespace weft::cli {

// Proves every registered algorithm for every number of ranks in `ranks` ("8" or "1..17") and every root, in place
// where that is allowed and not, staged where memory is touched and not, and in order where the algorithm says so. One
// line each; stops at the first counterexample.
Result<int> verify_all(const std::string& ranks, const std::string& json);

// Proves a collective's algorithms, or the one of `source`, on the active ranks of a mask ("0,2-7") or of every mask
// ("all"), once per class of masks that algorithms see alike. Active ranks are renumbered in their order.
Result<int> verify_masks(const ScheduleSource& source, Rank ranks, const std::string& active, const std::string& json);

}  // namespace weft::cli
