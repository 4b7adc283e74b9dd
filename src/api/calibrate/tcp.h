#pragma once

#include "api/calibrate/calibrate.h"

namespace weft::calibrate {

// Fills in what a loopback connection does, in some ten milliseconds; leaves zeros where there is none.
void measure_tcp(Rates& rates);

}  // namespace weft::calibrate
