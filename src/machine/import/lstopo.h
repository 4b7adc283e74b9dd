#pragma once

#include <string_view>

#include "machine/catalog/catalog.h"
#include "machine/topology.h"

namespace weft::topology {

// Whether a text is what hwloc's lstopo prints on a console: a line "Machine (…" with PCI devices indented below.
bool is_lstopo(std::string_view text);

// The GPUs and NICs of lstopo's text and how they reach each other: below one bridge, several, a host bridge, a
// package, or across packages. lstopo knows no NVLink and no GPU's model: gpu=MODEL names it. Errors (bad input),
// naming the file: no GPU.
Result<Topology> parse_lstopo(const Catalog& catalog, std::string_view name, std::string_view text);

}  // namespace weft::topology
