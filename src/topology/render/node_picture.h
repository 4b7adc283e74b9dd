#pragma once

#include "topology/render/svg_canvas.h"
#include "topology/topology.h"

namespace weft::topology {

// Draws node `node` with its top left corner at (0, y): CPUs as bars over what hangs at them, PCIe switches as bars
// over theirs, then one row of GPUs and NICs (or cores), below that NVSwitch as a bar or direct GPU links as arcs.
// Equal leaves or CPUs beyond what fits a page become one dashed box. Returns the y below the picture.
double draw_node(SvgCanvas& canvas, const Topology& topology, std::int32_t node, double y);

}  // namespace weft::topology
