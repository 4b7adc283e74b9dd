#include "model/simulate/reach.h"

#include <algorithm>

namespace weft::simulate {

Reach reach_of(const cost::MachineView& machine, Rank nodes, Rank ranks_per_node) {
  Reach reach;
  const auto links_to = [&](Rank node) { return machine.path(0, node * ranks_per_node).hops.size(); };
  std::size_t furthest = nodes > 1 ? links_to(1) : 0;
  for (Rank n = 2; n <= nodes; n *= 2) {
    const std::size_t links = links_to(n - 1);
    if (links <= furthest) continue;
    furthest = links;
    reach.least = n;
    if (!reach.tiers.empty()) reach.tiers.back().nodes = n / 2;
    reach.tiers.push_back({.apart = n / 2 > 1 && links_to(n / 2) == links ? n / 2 : n, .nodes = nodes});
  }
  return reach;
}

Rank base_of(const Reach& reach, Rank nodes) {
  if (reach.tiers.empty() || !reach.tiers.back().known_from_few()) return 0;
  Rank least = std::max(Tier::kFewest, 2 * reach.tiers.front().apart);
  for (const Tier& tier : reach.tiers)
    if (!tier.known_from_few()) least = std::max(least, tier.nodes);
  return Sizes(schedule::Growth::kPerLevel, nodes, least).at(0);
}

}  // namespace weft::simulate
