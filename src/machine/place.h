#pragma once

#include <span>
#include <vector>

#include "machine/switch_groups.h"
#include "machine/topology.h"

namespace weft::topology {

// `count` of the free nodes, as close to each other as they can be: all below the lowest switches that have enough,
// of those the ones that leave the least over; inside, whole groups first. Nodes come in the order of the tree, which
// is the order ranks should have.
// Errors (bad input): fewer free nodes than asked for.
Result<std::vector<std::int32_t>> choose_nodes(const NodeGroups& groups, std::span<const std::int32_t> free,
                                               std::int32_t count);

// `count` of the free nodes drawn by a seed, in no order: what a scheduler does that knows no topology.
// Errors: as above.
Result<std::vector<std::int32_t>> scatter_nodes(std::span<const std::int32_t> free, std::int32_t count,
                                                std::uint64_t seed);

// `count` of the free nodes, as evenly as can be over the `leaves` lowest switches with the most free nodes; 0: over
// all. A collective between all pairs is faster so where uplinks are fewer than nodes, as each switch brings its own.
// Errors (bad input): too few free nodes there.
Result<std::vector<std::int32_t>> spread_nodes(const NodeGroups& groups, std::span<const std::int32_t> free,
                                               std::int32_t count, std::int32_t leaves);

// The machine with these nodes only, numbered in this order, and all its switches.
// Requires: every node is there, none twice.
Topology subset(const Topology& topology, std::span<const std::int32_t> nodes);

}  // namespace weft::topology
