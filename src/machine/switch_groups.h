#pragma once

#include <vector>

#include "machine/topology.h"

namespace weft::topology {

// Which nodes meet below ever higher switches, from leaves up: groups[level][node] is a group's number at that level.
// Level 0: nodes that share a leaf (any of their rails); then those that share spines; at last all that can reach each
// other. Levels that add nothing are left out.
using NodeGroups = std::vector<std::vector<std::int32_t>>;

// Errors (bad input): a machine without network switches. Time: O((devices + links) · levels).
Result<NodeGroups> node_groups(const Topology& topology);

}  // namespace weft::topology
