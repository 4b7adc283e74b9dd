#pragma once

#include <memory>

#include "machine/topology.h"

namespace weft::topology {

// Finds paths in one topology: best type first (NVL before PIX … before NET), then highest rate, then fewest hops,
// then lowest latency. GPU-to-GPU traffic between nodes leaves through the nearest NIC (several equally near NICs
// are shared out by GPU index) and takes one of the equally short network routes, picked as topology.routing says. By
// ECMP and shortest the answer never depends on the order of calls; adaptive keeps what it once chose for a pair of
// NICs. Inside a node GPUs do not relay for each other, unless no path without relaying over scale-up links exists or
// their chips pass traffic on by themselves.
//   Where GPUs cannot reach each other's memory, or a NIC the GPU's, (peer_access.h) the path goes through the memory
//   of
// the host: down to it and up again, each link counted as often as it is crossed.
// Thread: one at a time (it caches). Owns: the cache; the topology must outlive it.
class Routes {
 public:
  explicit Routes(const Topology& topology);
  ~Routes();
  Routes(Routes&&) noexcept;

  // Ensures: type kLoc and no hops when from == to; kDis and no hops when there is no path.
  // Time: O(devices of two nodes + network switches) when first asked for a pair, without allocation growth in the
  // number of pairs asked: node-local and switch-to-switch parts are cached, whole paths are not.
  Path path(DeviceId from, DeviceId to) const;

  // The same without staging: what the wires allow between two devices of a node.
  // Requires: both in one node.
  Path wire_path(DeviceId from, DeviceId to) const;

 private:
  struct Cache;
  std::unique_ptr<Cache> cache_;
};

}  // namespace weft::topology
