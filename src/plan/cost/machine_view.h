#pragma once

#include "machine/routes.h"
#include "plan/protocol/hop_costs.h"

namespace weft::cost {

// What a CPU machine's caches hold and do. Zero: no such cache.
struct CpuCaches {
  Bytes own = 0;        // of all cores together
  Bytes shared = 0;     // the last level
  BytesPerSecond rate;  // of the last level, all cores together, bytes read and written
};

// A machine as costs are counted on it: where ranks sit, how they reach each other, what a hop costs. Rank r sits on
// endpoint r modulo the number of endpoints: more ranks than cores share them.
// Thread: one at a time (routes cache). Owns: topology, routes and table.
class MachineView {
 public:
  // Requires: the topology is valid. `caches` matter on CPU machines only.
  MachineView(topology::Topology topology, protocol::HopCosts costs, CpuCaches caches = {});

  const topology::Topology& topology() const { return *topology_; }
  const topology::Routes& routes() const { return *routes_; }
  const protocol::HopCosts& costs() const { return costs_; }
  void set_costs(protocol::HopCosts costs) { costs_ = std::move(costs); }
  const CpuCaches& caches() const { return caches_; }

  Rank endpoints() const { return static_cast<Rank>(devices_.size()); }
  topology::DeviceId device(Rank rank) const { return devices_[static_cast<std::size_t>(rank) % devices_.size()]; }
  // Ranks that share a node when `ranks` are placed in order; 1 if nodes are filled unevenly.
  Rank ranks_per_node(Rank ranks) const;
  Rank nodes(Rank ranks) const { return ranks / ranks_per_node(ranks); }
  // How many ranks share the node that rank `first` begins, in the order of placement. Requires: 0 <= first.
  Rank ranks_of_node(Rank first) const;

  // Are all nodes of these ranks of one class (node_classes.h)? Only then do few of them say what all do.
  bool nodes_alike(Rank ranks) const { return std::min(ranks, endpoints()) <= of_one_class_; }
  // The nodes in another order: those of the most frequent class first, so that few of them are sound ones. Equals the
  // nodes' own order where all are alike. Requires: as many ranks per node everywhere.
  Rank sound_rank(Rank rank) const {
    return of_one_class_ == endpoints() || first_node_ == 0 ||
                   static_cast<std::size_t>(rank / first_node_) >= sound_.size()
               ? rank
               : sound_[static_cast<std::size_t>(rank / first_node_)] * first_node_ + rank % first_node_;
  }

  // How many ranks share an endpoint.
  int sharing(Rank ranks) const { return (ranks + endpoints() - 1) / endpoints(); }

  // What plans can use of a link's direction: its rate, or what others leave of it. By 2 * link, + 1 from b to a.
  BytesPerSecond rate(std::int64_t direction) const;
  // Requires: one rate per direction.
  void set_left(std::vector<BytesPerSecond> left) { left_ = std::move(left); }

  topology::Path path(Rank from, Rank to) const { return routes_->path(device(from), device(to)); }

  // CPU machines: what one core does in its own cache.
  BytesPerSecond core_rate() const { return core_rate_; }
  // The outermost level that `touched` bytes of all ranks' buffers reach, and what all cores together do on them.
  struct Level {
    std::string_view name;
    BytesPerSecond rate;
  };
  Level level_of(Bytes touched, Rank ranks) const;

 private:
  void look_at_nodes();

  std::unique_ptr<topology::Topology> topology_;
  std::unique_ptr<topology::Routes> routes_;
  protocol::HopCosts costs_;
  CpuCaches caches_;
  std::vector<topology::DeviceId> devices_;
  Rank first_node_ = 0;               // ranks of the first node
  Rank alike_ = 0;                    // ranks of the first nodes that have as many each
  Rank of_one_class_ = 0;             // ranks of the first nodes that are of one class
  std::vector<Rank> sound_;           // nodes, see sound_rank; empty: in order
  std::vector<BytesPerSecond> left_;  // empty: nobody else is there
  BytesPerSecond core_rate_, memory_rate_;
};

}  // namespace weft::cost
