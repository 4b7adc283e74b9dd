#pragma once

#include "cost/machine_view.h"

namespace weft::cost {

// What one-sided operations cost besides what all messages do: the numbers of data/protocol/access_costs.json.

// One load from memory over a path of this type ("LOC": one's own), there and back.
Duration load_latency(bool gpu, topology::PathType path);
// The call of a put, get or atomic operation.
Duration call_time(bool gpu);
// What reading gets of a memory's own rate.
double read_efficiency(bool gpu);

// A machine whose ranks put and get: hops of the protocol Direct over every path, also across the network, as fast as
// the links.
struct OneSidedView {
  const MachineView& machine;
  protocol::HopCosts costs;

  // From a rank having the data to the peer seeing it, beyond the bytes.
  Duration latency(Rank from, Rank to, Rank ranks) const;
  // A question to a peer's memory and the answer.
  Duration round_trip(Rank from, Rank to, Rank ranks) const;
};
// Errors: see HopCosts::parse. `machine` must outlive the result.
Result<OneSidedView> one_sided_view(const MachineView& machine);

}  // namespace weft::cost
