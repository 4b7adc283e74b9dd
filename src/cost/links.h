#pragma once

#include <vector>

#include "cost/shares.h"

namespace weft::cost {

// What the connections of a plan's channel 0 cost while all channels are at work. Seconds, as doubles: estimates add up
// small numbers. A value.
struct Links {
  struct Link {
    double latency = 0, overhead = 0, fence = 0, rate = 0;  // latency: after the sender is done with the message
    double look = 0;  // CPU ranks that share memory: what seeing one more message or signal takes
  };
  std::vector<Link> of;                 // by the script's connection
  std::vector<double> posting, taking;  // by rank: all channels' messages for each of channel 0's
};

// Errors: kUnsupported (bad input) naming two ranks and why the protocol does not run between them.
Result<Links> links_of(const MachineView& machine, const schedule::Task& task, protocol::Protocol protocol,
                       const Script& script, const Paths& paths, const Shares& shares);

}  // namespace weft::cost
