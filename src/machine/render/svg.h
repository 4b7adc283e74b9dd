#pragma once

#include <string>

#include "machine/topology.h"

namespace weft::topology {

// A picture of the machine as an SVG document: its first node in detail and, for a cluster, an overview of spines,
// leaves and nodes in which equal ones beyond the eighth are one box. A link is as wide as its rate, to the scale that
// stands below, and so is a bar in every GPU for its memory; a legend names kinds and rates.
std::string svg(const Topology& topology);

// The first node alone, without legend: what a map shows where one node fills it.
std::string node_svg(const Topology& topology);

}  // namespace weft::topology
