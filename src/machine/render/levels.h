#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/topology.h"

namespace weft::topology {

// A level of a cluster as a map draws it, from nodes up: nodes on the same leaves, these on the same spines, and so on.
struct MapLevel {
  std::string word;                 // "node", "rail group", "leaf", "pod", "group"
  std::int64_t count = 0;           // of all of them in the machine
  std::vector<std::int32_t> sizes;  // children of each, one number where all have as many; of a node: GPUs
};

// Smallest first; the last has a count of one or more, all of which are joined above or not at all. A machine of one
// node has one level.
std::vector<MapLevel> map_levels(const Topology& topology);

}  // namespace weft::topology
