#pragma once

#include "protocol/hop_costs.h"
#include "topology/routes.h"

namespace weft::cost {

// A machine as costs are counted on it: where ranks sit, how they reach each other, what a hop costs. Rank r sits on
// endpoint r modulo the number of endpoints: more ranks than cores share them.
// Thread: one at a time (routes cache). Owns: topology, routes and table.
class MachineView {
 public:
  // Requires: the topology is valid. `cache`: on CPU machines, the bytes of all ranks' buffers that stay out of memory.
  MachineView(topology::Topology topology, protocol::HopCosts costs, Bytes cache);

  const topology::Topology& topology() const { return *topology_; }
  const topology::Routes& routes() const { return *routes_; }
  const protocol::HopCosts& costs() const { return costs_; }
  Bytes cache() const { return cache_; }

  Rank endpoints() const { return static_cast<Rank>(devices_.size()); }
  topology::DeviceId device(Rank rank) const { return devices_[static_cast<std::size_t>(rank) % devices_.size()]; }
  // Ranks that share a node when `ranks` are placed in order; 1 if nodes are filled unevenly.
  Rank ranks_per_node(Rank ranks) const;
  Rank nodes(Rank ranks) const { return ranks / ranks_per_node(ranks); }

  topology::Path path(Rank from, Rank to) const { return routes_->path(device(from), device(to)); }

  // CPU machines: what the core's own link carries, and what all memory together does. Zero where there is none.
  BytesPerSecond core_rate() const { return core_rate_; }
  BytesPerSecond memory_rate() const { return memory_rate_; }

 private:
  std::unique_ptr<topology::Topology> topology_;
  std::unique_ptr<topology::Routes> routes_;
  protocol::HopCosts costs_;
  Bytes cache_;
  std::vector<topology::DeviceId> devices_;
  BytesPerSecond core_rate_, memory_rate_;
};

}  // namespace weft::cost
