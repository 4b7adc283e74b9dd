#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "machine/catalog/catalog.h"
#include "machine/topology.h"

namespace weft::topology {

// The hosts at every switch, and how switches are joined: the contents of Slurm's topology.conf and of ibnetdiscover.
struct NetworkTree {
  struct Host {
    std::string name;
    std::vector<std::int32_t> ports;  // the switch at every adapter; one entry: all adapters are there
  };
  struct Trunk {
    std::int32_t a = 0, b = 0;  // switches; of a tree, b is the upper one
    std::int32_t count = 0;     // ports; 0: not said
  };
  std::vector<std::string> switches;
  std::vector<Host> hosts;
  std::vector<Trunk> trunks;
  std::string assumed;  // what the file left open, a sentence for findings(); empty: nothing
};

// The cluster: a copy of `node` for every host, which is called so in the fact "name" of its CPUs. Where the tree does
// not say how many ports join two switches, they have one for every `oversub` adapters below.
// Errors (bad input): unknown network, a node without NIC.
Result<Topology> cluster_of(const Catalog& catalog, const NetworkTree& tree, const Topology& node,
                            std::string_view network, std::int32_t oversub);

// The name of every node: "tux3", the fact "name" of its CPUs, or "node3".
std::vector<std::string> host_names(const Topology& topology);

}  // namespace weft::topology
