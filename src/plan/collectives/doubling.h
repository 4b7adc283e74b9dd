#pragma once

#include "plan/schedule/algorithm.h"

namespace weft::collectives {

schedule::Algorithm recursive_doubling_all_reduce();
schedule::Algorithm recursive_doubling_all_gather();
schedule::Algorithm recursive_halving_reduce_scatter();
schedule::Algorithm halving_doubling_all_reduce();

}  // namespace weft::collectives
