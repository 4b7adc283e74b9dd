#pragma once

#include <string>

#include "machine/topology.h"

namespace weft::topology {

// The path class of every pair of GPUs and NICs (cores on a machine without GPUs) as a table with a legend, in the
// manner of `nvidia-smi topo -m`: "NV18" is 18 NVLinks, "NVB" NVLink through a neighbouring GPU. At most 16 devices of
// the first nodes; a last line says what was left out.
std::string matrix_text(const Topology& topology);

}  // namespace weft::topology
