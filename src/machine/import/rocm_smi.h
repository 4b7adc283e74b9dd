#pragma once

#include <string_view>

#include "machine/catalog/catalog.h"
#include "machine/topology.h"

namespace weft::topology {

// Whether a text is what `rocm-smi --showtopo` prints.
bool is_rocm_smi(std::string_view text);

// A node from `rocm-smi --showtopo`: the link types between GPUs, with their NUMA nodes and hops where those are there.
// PCIE is PHB within a NUMA node (or over two hops), else SYS; a pair of XXXX is not joined directly.
// Errors (bad input), naming line and value: no table of link types, a row that has not as many entries as columns, an
// unknown entry, a table that is not square or not symmetric.
Result<Topology> parse_rocm_smi(const Catalog& catalog, std::string_view name, std::string_view text);

}  // namespace weft::topology
