#pragma once

#include <vector>

#include "plan/cost/shares.h"

namespace weft::cost {

// What the connections of a plan's channel 0 cost while all channels are at work. Seconds, as doubles: estimates add up
// small numbers. A value.
struct Links {
  struct Link {
    double latency = 0, overhead = 0, fence = 0, rate = 0;  // latency: after the sender is done with the message
    double channel = 0;    // what the rank's channel moves at most, whatever its links carry; 0: no such bound
    bool crosses = false;  // the network
    double look = 0;       // CPU ranks that share memory: what seeing one more message or signal takes
  };
  std::vector<Link> of;                 // by the script's connection
  std::vector<double> posting, taking;  // by rank: all channels' messages for each of channel 0's
  // GPUs: seconds that the busiest link direction, or the busiest node's host, needs for all channels' bytes of a
  // round, for each byte of a piece of a chunk as it is on the wire.
  double busiest = 0;
};

// Errors: kUnsupported (bad input) naming two ranks and why the protocol does not run between them.
Result<Links> links_of(const MachineView& machine, const schedule::Task& task, protocol::Protocol protocol,
                       const Script& script, const Paths& paths, const Shares& shares);

}  // namespace weft::cost
