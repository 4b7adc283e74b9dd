#pragma once

#include <cstdint>

#include "sim/flow/max_min.h"

namespace weft::sim {

// What happened to the packets of a simulation. A value type.
struct PacketStatistics {
  std::int64_t sent = 0;                // over every link of their ways
  std::int64_t retried = 0;             // by links, after bit errors
  std::int64_t lost = 0;                // and sent again by their senders
  std::int64_t pauses = 0, marked = 0;  // PFC, ECN
  double longest = 0;                   // queue for one link, in bytes on it …
  MaxMin::Resource at = -1;             // … and which link; none: nothing ever queued
};

}  // namespace weft::sim
