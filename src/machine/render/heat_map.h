#pragma once

#include <string>

#include "machine/topology.h"

namespace weft::topology {

// An SVG table of the rate of the best path between every two GPUs and NICs (cores on a machine without GPUs), coloured
// on a logarithmic scale and labelled with the path class. At most 32 devices: of large nodes
// some of the first two; a line says what was left out.
std::string heat_map_svg(const Topology& topology);

}  // namespace weft::topology
