#pragma once

#include <vector>

#include "plan/schedule/algorithm.h"

namespace weft::collectives {

// Expert parallelism: of dispatch and combine.
std::vector<schedule::Algorithm> experts();

}  // namespace weft::collectives
