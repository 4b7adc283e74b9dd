#pragma once

#include <cstdint>

namespace weft::tests {

// From now on this process reads a calendar clock that is N seconds ahead, as after an administrator or NTP has
// set it. Linked into a program, the file replaces its clock_gettime, also for libraries; clocks that only count are
// true.
void set_clock_ahead(std::int64_t n);

}  // namespace weft::tests
