#pragma once

#include "plan/cost/machine_view.h"

namespace weft::cost {

// What one-sided operations cost besides what all messages do: the numbers of data/protocol/access_costs.json.

// One load from memory over a path of this type ("LOC": one's own), there and back.
Duration load_latency(bool gpu, topology::PathType path);
// The call of a put, get or atomic operation.
Duration call_time(bool gpu);
// The part of a memory's own rate that reading gets.
double read_efficiency(bool gpu);

// What an accelerator reads of its own memory, and how much it has: of the catalogue. Errors (bad input): the catalogue
// has no such figure of this rank's model.
Result<BytesPerSecond> read_rate(const MachineView& machine, Rank reader);
Result<Bytes> memory_size(const MachineView& machine, Rank owner);

// What posting one message to a NIC takes if this one does it: "gpu", "proxy", "cpu". Errors (bad input): another word.
Result<Duration> posting_time(const std::string& poster);
// A machine's costs where every message across the network is posted so. Errors: see HopCosts::calibrated.
Result<protocol::HopCosts> posted_by(const MachineView& machine, Duration posting);

// Demand paging of memory that the host manages: a fault brings one leaf, and a subtree of the block's binary tree is
// completed as soon as more than half of it is there.
struct Paging {
  Bytes leaf = 0, block = 0;
  Duration fault;
  // Faults until all leaves of a block have been touched in order: of the first, the second, and every power of two.
  int faults_per_block() const;
};
Paging gpu_paging();

// A machine whose ranks put and get: hops of the protocol Direct over every path, also across the network, as fast as
// the links.
struct OneSidedView {
  const MachineView& machine;
  protocol::HopCosts costs;

  // The time from a rank having the data to the peer seeing it, beyond the bytes.
  Duration latency(Rank from, Rank to, Rank ranks) const;
  // A question to a peer's memory and the answer.
  Duration round_trip(Rank from, Rank to, Rank ranks) const;
};
// Errors: see HopCosts::parse. `machine` must outlive the result.
Result<OneSidedView> one_sided_view(const MachineView& machine);

// The same where another system moves the data ("mooncake": "stacks" of access_costs.json), and that system's own time
// before the first byte. Errors (bad input): there is none of this name.
struct Stack {
  OneSidedView view;
  Duration start;
};
Result<Stack> stack_view(const MachineView& machine, const std::string& name);

}  // namespace weft::cost
