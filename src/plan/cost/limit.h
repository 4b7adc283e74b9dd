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
  // Switches can sum, and the bound reckons with it: a rank may send less than bus bandwidth counts, which may then
  // pass its port's rate.
  bool switches_sum = false;
};
Limit limit(const MachineView& machine, const schedule::Task& task);

// Names what a percentage is of: "the least possible time, 2.39 ms (GPU port 450 GB/s), is 58 % of that; bus bandwidth
// 455 of at most 787 GB/s, which counts the sums that switches make".
std::string share_of_least(const Limit& limit, const schedule::Task& task, Duration time);

}  // namespace weft::cost
