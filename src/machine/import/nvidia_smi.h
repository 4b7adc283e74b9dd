#pragma once

#include <string_view>

#include "machine/catalog/catalog.h"
#include "machine/topology.h"

namespace weft::topology {

// Whether a text holds a table of `nvidia-smi topo` (a line of columns that starts with GPU0).
bool is_nvidia_smi(std::string_view text);

// A node from `nvidia-smi topo -m` (or -mp), as printed or pasted: with or without prompt, legend, NIC rows, columns of
// CPU and NUMA affinity; old tables (SOC, mlx5_0 as columns) too. The status tables of `topo -p2p` are read as GPUs at
// one CPU of which CNS, NS, … cannot reach each other. What the classes become is written in matrix_machine.h.
// Errors (bad input), naming line and value: no table, a row with too few entries, an unknown entry, a GPU without its
// row, a device named twice, two entries of one pair that differ.
Result<Topology> parse_nvidia_smi(const Catalog& catalog, std::string_view name, std::string_view text);

}  // namespace weft::topology
