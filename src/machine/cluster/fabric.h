#pragma once

#include <vector>

#include "machine/cluster/cluster.h"

namespace weft::topology {

// The network's switch, cable and NIC port as the builder needs them.
struct NetworkParts {
  std::string model;
  bool reduces = false;    // the switches sum what comes in
  std::int32_t ports = 0;  // of one switch
  Link edge;               // NIC to switch
  Link trunk;              // switch to switch, one port
};

// Adds the switches and their links to a cluster whose nodes are there already. `nics[n][r]` is node n's NIC of rail r.
// Errors (bad input): dims that are not the number of nodes.
Status add_fabric(const NetworkParts& parts, const ClusterOptions& options,
                  const std::vector<std::vector<DeviceId>>& nics, Topology& cluster);

}  // namespace weft::topology
