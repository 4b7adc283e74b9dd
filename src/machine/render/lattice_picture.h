#pragma once

#include "machine/render/svg_canvas.h"
#include "machine/topology.h"

namespace weft::topology {

// Whether the node's accelerators have places in a torus or grid (fact "at").
bool is_lattice(const Topology& topology, std::int32_t node);

// Draws such a node from (0, y) down: one block per plane, neighbours joined, links around the edge as stubs; a line
// of text for what hangs at the chips. Returns the y below. Requires: is_lattice.
double draw_lattice(SvgCanvas& canvas, const Topology& topology, std::int32_t node, double y);

}  // namespace weft::topology
