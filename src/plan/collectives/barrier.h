#pragma once

#include "plan/schedule/algorithm.h"

namespace weft::collectives {

schedule::Algorithm dissemination_barrier();
schedule::Algorithm spread_barrier();

}  // namespace weft::collectives
