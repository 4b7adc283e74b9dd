#pragma once

#include <vector>

#include "plan/schedule/algorithm.h"

namespace weft::collectives {

// Of all_to_all, gather, scatter and send_receive.
std::vector<schedule::Algorithm> grouped();

}  // namespace weft::collectives
