#pragma once

#include <functional>
#include <optional>

#include "apps/serving/engine.h"

namespace weft::serving {

using Serve = std::function<Result<Run>(const Load& load)>;

// The largest rate up to which engines keep up, in steps of 1 %: beyond it the number of requests in the system grows
// by more than 2 % of those that come, which are evenly spread. Nothing: they keep up with the asked one. The answer
// does not depend on the rate, number and seed that are asked for. Requires: load.rate > 0. Errors: those of `serve`.
Result<std::optional<double>> largest_stable_rate(const Serve& serve, const Load& load);

// Requests/s that were served of a trace whose queue did not empty soon after its last arrival; nothing: it did.
std::optional<double> overloaded_by_trace(const Run& run);

}  // namespace weft::serving
