#pragma once

#include <string>

#include "topology/topology.h"

namespace weft::topology {

// A picture of the machine as an SVG document: its first node in detail and, for a cluster, an overview of spines,
// leaves and nodes in which equal ones beyond the eighth are one box. Links are coloured by kind and widened by rate;
// a legend gives both.
std::string svg(const Topology& topology);

}  // namespace weft::topology
