#pragma once

#include "plan/cost/machine_view.h"
#include "plan/tune/nccl/system.h"

namespace weft::tune::nccl {

// What NCCL finds on a machine for its first `ranks` GPUs. The search is NCCL's in its speeds, limits and order of
// relaxations, but it looks at one node, and for chains of GPUs only: trees take the rings' channels.
// Errors (kUnsupported, bad input): endpoints that are not NVIDIA GPUs, nodes that are filled unevenly.
// Source: NCCL 2.30.7, src/graph/{topo,search,connect}.cc.
Result<System> system_of(const cost::MachineView& machine, Rank ranks);

}  // namespace weft::tune::nccl
