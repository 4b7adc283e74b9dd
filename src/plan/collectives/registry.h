#pragma once

#include <vector>

#include "base/result.h"
#include "plan/schedule/algorithm.h"

namespace weft::collectives {

// Every algorithm weft knows. A new one is added here and nowhere else.
const std::vector<schedule::Algorithm>& algorithms();

std::vector<const schedule::Algorithm*> algorithms_for(schedule::Collective collective);

// A name that ends in .xml or .json is a file's, see plan/schedule/exchange/written.h.
// Errors (bad input): no such algorithm for this collective; names those there are. Of a file: see there.
Result<const schedule::Algorithm*> find_algorithm(schedule::Collective collective, std::string_view name);

}  // namespace weft::collectives
