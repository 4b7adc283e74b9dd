#pragma once

#include <string>

#include "machine/catalog/catalog.h"
#include "machine/topology.h"

namespace weft::topology {

// One node as an NCCL system topology that NCCL_TOPO_FILE accepts and import_nccl_xml reads back with the same paths.
// A machine that came from such a file comes back equal, with every attribute. Bus ids that are not known are made up.
// Lost of other machines, because the format has no place for them: memory, latencies, links between CPUs (the reader
// infers them from the CPU's model), all NVSwitches but the first.
// Errors (bad input): a node without GPU, or with chip links, which NCCL does not know.
Result<std::string> to_nccl_xml(const Catalog& catalog, const Topology& topology, std::int32_t node = 0);

}  // namespace weft::topology
