#pragma once

#include <cstdint>
#include <vector>

#include "machine/topology.h"

namespace weft::cost {

// By device: of network switches, from 1, their links to the nearest device that is none; of everything else 0.
std::vector<int> tiers_of(const topology::Topology& topology);

// By node: numbers of classes, from 0 in the order of nodes. Nodes of a class have the same devices on the same places,
// joined by links of the same rates and latencies, and hang by the same links on switches whose ways up are alike. So a
// node with a dead NIC or a slow link is of another class than its neighbours, and so are those of a leaf switch whose
// uplinks are slow. How many nodes hang on a switch, and on which one, does not count.
//   Time: linear in devices and links.
std::vector<std::int32_t> node_classes(const topology::Topology& topology);

}  // namespace weft::cost
