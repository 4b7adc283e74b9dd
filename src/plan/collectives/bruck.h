#pragma once

#include "plan/schedule/algorithm.h"

namespace weft::collectives {

schedule::Algorithm bruck_all_gather();
schedule::Algorithm bruck_reduce_scatter();
schedule::Algorithm bruck_all_to_all();

}  // namespace weft::collectives
