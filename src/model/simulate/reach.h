#pragma once

#include <vector>

#include "model/simulate/extrapolate.h"
#include "plan/cost/machine_view.h"

namespace weft::simulate {

// How far the nodes of a machine are from each other.
struct Reach {
  Rank least = 1;           // this many first nodes reach over as many links as any two do
  std::vector<Tier> tiers;  // beyond the nearest nodes, in order of distance
};

// Measures the ways from node 0, at powers of two.
Reach reach_of(const cost::MachineView& machine, Rank nodes, Rank ranks_per_node);

// The number of first nodes from which a tree's lowest levels are known, where a few nodes of every tier beyond show
// what its levels add. 0: there is no tier, or the last one is too small.
Rank base_of(const Reach& reach, Rank nodes);

}  // namespace weft::simulate
