#pragma once

#include <string>

#include "machine/topology.h"

namespace weft::topology {

// Slurm's topology.conf (topology/tree) of a cluster. Leaves with the same nodes (rails) are one switch of the tree,
// and so are the spines of one pod: Slurm knows trees only.
// Errors (bad input): a machine without network switches.
Result<std::string> to_slurm(const Topology& topology);

// One Kubernetes Node per node with the labels network.topology.nvidia.com/{accelerator,leaf,spine,core} that topology
// aware schedulers read (NVIDIA topograph's), as YAML. Errors: as to_slurm.
Result<std::string> to_kubernetes(const Topology& topology);

}  // namespace weft::topology
