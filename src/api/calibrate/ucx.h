#pragma once

#include "api/calibrate/calibrate.h"

namespace weft::calibrate {

// Fills in what UCX does between two ranks, as weft uses it: of one machine, and as if of two (over loopback). In some
// tenths of a second, in processes of their own, since UCX leaves threads and handlers behind where it was loaded.
// Leaves zeros where there is no UCX. Thread: the only one, since it forks.
void measure_ucx(Rates& rates);

}  // namespace weft::calibrate
