#pragma once

#include <optional>
#include <span>
#include <vector>

#include "machine/topology.h"

namespace weft::topology {

// The best path between two devices of one node over that node's own links, or nothing if there is none.
// What counts as best, and who may relay, is written in routes.h.
// `devices` are the node's, in ascending order.
// Time: O(links · log) per path type tried.
std::optional<Path> find_node_path(const Topology& topology, std::span<const DeviceId> devices, DeviceId from,
                                   DeviceId to);

// The class of a path of at least one hop, from the devices and links it crosses.
PathType classify(const Topology& topology, DeviceId from, std::span<const Hop> hops);

}  // namespace weft::topology
