#pragma once

#include <vector>

namespace weft::calibrate {

// The processors that this thread may run on, ascending; never empty.
std::vector<int> usable_cpus();

// Binds this thread to one of them, if the system lets it.
void pin_to(int cpu);

}  // namespace weft::calibrate
