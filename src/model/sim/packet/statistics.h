#pragma once

#include <cstdint>

#include "model/sim/flow/max_min.h"

namespace weft::sim {

// Counts of the packets of a simulation. A value type.
struct PacketStatistics {
  std::int64_t sent = 0;                // over every link of their ways
  std::int64_t retried = 0;             // by links, after bit errors
  std::int64_t lost = 0;                // by switches without room, by bit errors, and by `loss`
  std::int64_t discarded = 0;           // by their receivers: out of order, or there before
  std::int64_t reordered = 0;           // that reached their receivers after a later one of their message
  std::int64_t timeouts = 0;            // of senders, without an acknowledgement
  std::int64_t pauses = 0, marked = 0;  // PFC, ECN
  double longest = 0;                   // queue for one link, in bytes on it …
  MaxMin::Resource at = -1;             // … and which link; none: nothing ever queued
};

}  // namespace weft::sim
