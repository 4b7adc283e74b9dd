#pragma once

#include <string>

#include "topology/catalog/catalog.h"
#include "topology/topology.h"

namespace weft::topology {

// One node as an NCCL system topology that NCCL_TOPO_FILE accepts and import_nccl_xml reads back with the same paths.
// Bus ids that are not known are made up. Lost, because the format has no place for them: memory, latencies, links
// between CPUs (the reader infers them from the CPU's model).
// Errors (bad input): a node without GPU.
Result<std::string> to_nccl_xml(const Catalog& catalog, const Topology& topology, std::int32_t node = 0);

}  // namespace weft::topology
