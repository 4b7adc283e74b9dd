#pragma once

#include <vector>

#include "plan/schedule/algorithm.h"

// Algorithms that load and store the peers' memory instead of sending messages.
namespace weft::collectives {

// Everybody fetches what they want: "direct" for every collective but all_reduce.
std::vector<schedule::Algorithm> direct();
schedule::Algorithm two_shot_all_reduce();
schedule::Algorithm two_shot_broadcast();
schedule::Algorithm two_shot_reduce();

}  // namespace weft::collectives
