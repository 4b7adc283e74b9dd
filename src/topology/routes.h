#pragma once

#include <memory>

#include "topology/topology.h"

namespace weft::topology {

// Finds paths in one topology: best type first (NVL before PIX … before NET), then highest rate, then fewest hops,
// then lowest latency. GPU-to-GPU traffic between nodes leaves through the nearest NIC (several equally near NICs
// are shared out by GPU index) and takes one of the equal-cost network routes, picked by a hash of the two NICs,
// so that the answer never depends on the order of calls. Inside a node GPUs do not relay for each other, unless
// no path without relaying over NVLink/XGMI exists.
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

 private:
  struct Cache;
  std::unique_ptr<Cache> cache_;
};

}  // namespace weft::topology
