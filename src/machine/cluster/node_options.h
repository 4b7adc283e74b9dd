#pragma once

#include "machine/cluster/cluster.h"

namespace weft::topology {

// The node with the options applied that concern one node: NICs, link generations, host settings, NVLink domain.
// Errors (bad input): see build_cluster.
Result<Topology> with_options(const Catalog& catalog, const Topology& node, const ClusterOptions& options,
                              const Part* network);

// The node with its first `gpus` GPUs only, and without NICs that are plugged into the other ones; 0: all. NICs and
// switches stay, as where a job is given one GPU of each node. Errors (bad input): see build_cluster.
Result<Topology> with_gpus(const Topology& node, std::int32_t gpus);

std::vector<DeviceId> of_kind(const Topology& topology, DeviceKind kind);

}  // namespace weft::topology
