#pragma once

#include <string>

#include "plan/cost/machine_view.h"
#include "plan/schedule/lower/lower.h"

namespace weft::cost {

// The least time a collective can take on a machine, whatever the algorithm, and what sets it. Rates are the
// catalogue's raw link rates (CPU machines: measured).
struct Limit {
  Duration time;
  std::string resource;     // "GPU port 450 GB/s", "node's NICs 400 GB/s", "memory 61 GB/s", "latency"
  BytesPerSecond bus_rate;  // the bus bandwidth that time corresponds to
};
Limit limit(const MachineView& machine, const schedule::Task& task);

}  // namespace weft::cost
