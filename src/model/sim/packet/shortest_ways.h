#pragma once

#include <vector>

#include "machine/topology.h"
#include "model/sim/flow/max_min.h"

namespace weft::sim {

// All ways as short as `path` that leave and enter the network where it does and cross other switches or links between:
// those that a network which spreads packets has to choose from. The first is `path`; at most `most`. A path that is no
// chain of links, or crosses fewer than two network links, has itself alone.
std::vector<std::vector<MaxMin::Use>> shortest_ways(const topology::Topology& topology, MaxMin::Path path,
                                                    std::size_t most);

}  // namespace weft::sim
