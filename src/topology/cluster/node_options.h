#pragma once

#include "topology/cluster/cluster.h"

namespace weft::topology {

// The node with the options applied that concern one node: NICs, link generations, host settings, NVLink domain.
// Errors (bad input): see build_cluster.
Result<Topology> with_options(const Catalog& catalog, const Topology& node, const ClusterOptions& options,
                              const Part* network);

std::vector<DeviceId> of_kind(const Topology& topology, DeviceKind kind);

}  // namespace weft::topology
