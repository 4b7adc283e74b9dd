#pragma once

#include "machine/render/svg_canvas.h"
#include "machine/topology.h"

namespace weft::topology {

// Draws cores, spines, leaves and nodes in rows from (0, y) down, each with what one member is joined to; rows with
// more than eight end in a dashed box. Switches joined to others of their row (torus, dragonfly) have arcs above them.
// Time: O(links).
// Returns the y below the picture. Requires: at least one network switch.
double draw_cluster(SvgCanvas& canvas, const Topology& topology, double y);

}  // namespace weft::topology
