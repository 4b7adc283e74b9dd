#pragma once

#include "machine/catalog/catalog.h"
#include "machine/render/svg_canvas.h"
#include "machine/topology.h"

namespace weft::topology {

// Draws node `node` with its top left corner at (0, y): CPUs as bars over what hangs at them, PCIe switches as bars
// over theirs, then one row of GPUs and NICs (or cores), below that NVSwitch as a bar or direct GPU links as arcs.
// Equal leaves or CPUs beyond what fits a page become one dashed box. Returns the y below the picture.
// A bar in every GPU's box is as wide as its memory is fast, to the scale of the links, where `catalog` knows it.
double draw_node(SvgCanvas& canvas, const Topology& topology, std::int32_t node, double y,
                 const Catalog* catalog = nullptr);

// What the catalogue says of the memory of a device of this model, reads and writes together; 0: nothing.
BytesPerSecond memory_rate(const Catalog& catalog, const Device& device);
inline constexpr double kWidestMemory = 62;  // px in a GPU's box

}  // namespace weft::topology
