#pragma once

#include <vector>

#include "machine/topology.h"

namespace weft::topology {

// How far every network switch is from the nearest NIC: leaves 0, spines 1, cores 2. -1 for all other devices and for
// switches that no NIC reaches. Time: O(devices + links).
std::vector<std::int32_t> switch_heights(const Topology& topology);

}  // namespace weft::topology
