#pragma once

#include "plan/schedule/collective.h"
#include "plan/schedule/lower/lower.h"

namespace weft::explore {

// GB/s, as nccl-tests counts busbw.
inline double bus_bandwidth(Bytes bytes, Duration time, const schedule::Task& task) {
  return static_cast<double>(bytes) / time.s() * 1e-9 * schedule::bus_factor(task.collective, task.ranks);
}

}  // namespace weft::explore
