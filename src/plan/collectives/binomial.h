#pragma once

#include "plan/schedule/algorithm.h"

namespace weft::collectives {

schedule::Algorithm binomial_broadcast();
schedule::Algorithm binomial_reduce();
schedule::Algorithm binomial_gather();
schedule::Algorithm binomial_scatter();

}  // namespace weft::collectives
