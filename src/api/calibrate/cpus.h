#pragma once

#include <vector>

namespace weft::calibrate {

// The processors that this thread may run on, ascending; never empty.
std::vector<int> usable_cpus();

// Those that this process could be allowed: also where a launcher has bound it to some of them.
std::vector<int> every_cpu();
// Lets this thread run on all of them.
void unbind();

// Binds this thread to some of them, if the system lets it.
void pin_to(const std::vector<int>& cpus);
void pin_to(int cpu);

}  // namespace weft::calibrate
