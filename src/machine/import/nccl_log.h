#pragma once

#include <string_view>

#include "machine/catalog/catalog.h"
#include "machine/topology.h"

namespace weft::topology {

// Whether a log of NCCL has its table of paths (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH): lines
// "… NCCL INFO GPU/4E000 :GPU/4e000 (0/5000.0/LOC) GPU/4f000 (4/24.0/PHB) … NET/0 (3/24.0/PIX)".
bool is_nccl_log(std::string_view text);

// The node of the host that comes first, from those lines: GPUs and NICs with the class of the path between each two,
// NVLinks by the bandwidth between two GPUs. Errors (bad input): no GPU.
Result<Topology> parse_nccl_log(const Catalog& catalog, std::string_view name, std::string_view text);

}  // namespace weft::topology
