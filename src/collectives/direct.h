#pragma once

#include "schedule/algorithm.h"

namespace weft::collectives {

schedule::Algorithm one_shot_all_reduce();
schedule::Algorithm two_shot_all_reduce();

}  // namespace weft::collectives
