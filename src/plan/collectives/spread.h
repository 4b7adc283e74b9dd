#pragma once

#include <vector>

#include "plan/schedule/algorithm.h"

namespace weft::collectives {

// "spread" for every collective that has one hop's worth of work, "one_shot" for all_reduce.
std::vector<schedule::Algorithm> spread();
schedule::Algorithm all_pairs_all_reduce();
schedule::Algorithm pairwise_all_to_all();

}  // namespace weft::collectives
