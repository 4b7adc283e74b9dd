#pragma once

#include "topology/render/svg_canvas.h"
#include "topology/topology.h"

namespace weft::topology {

// Draws spines, leaves and nodes in three rows from (0, y) down; rows with more than eight end in a dashed box.
// Returns the y below the picture. Requires: at least one network switch.
double draw_cluster(SvgCanvas& canvas, const Topology& topology, double y);

}  // namespace weft::topology
