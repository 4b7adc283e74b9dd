#pragma once

#include <string>
#include <vector>

#include "machine/topology.h"

namespace weft::topology {

// What is suspicious about a machine from a file, or was not said there and is assumed, and where the network is
// oversubscribed: one sentence each, naming the device. Empty for presets.
std::vector<std::string> findings(const Topology& machine);

}  // namespace weft::topology
