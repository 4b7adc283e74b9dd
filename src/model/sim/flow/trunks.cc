// Long ways of which most resources are the same.

#include <algorithm>
#include <utility>

#include "model/sim/flow/max_min.h"

namespace weft::sim {
namespace {

constexpr std::size_t kMostTrunkless = 64;  // ways that a new one is compared with; a choice

}  // namespace

// Finds a trunk that the way crosses, or makes one of what it shares with a way that has none.
void MaxMin::find_trunk(Way number) {
  const Path own = path(number);
  const auto mark = [&](std::uint8_t with) {
    for (const Use& use : own) marked_[static_cast<std::size_t>(use.resource)] = with;
  };
  const auto is_marked = [&](Resource r) { return marked_[static_cast<std::size_t>(r)] != 0; };
  const auto free = [&](const Use& use) {
    return is_marked(use.resource) && trunk_of_[static_cast<std::size_t>(use.resource)] < 0;
  };
  std::int32_t found = -1;
  mark(1);
  for (std::size_t i = 0; i < own.size() && found < 0; ++i)
    if (const std::int32_t trunk = trunk_of_[static_cast<std::size_t>(own[i].resource)]; trunk >= 0)
      if (std::ranges::all_of(trunks_[static_cast<std::size_t>(trunk)].resources, is_marked)) found = trunk;
  for (auto other = trunkless_.begin(); other != trunkless_.end() && found < 0; ++other) {
    if (2 * static_cast<std::size_t>(std::ranges::count_if(path(*other), free)) < own.size()) continue;
    found = static_cast<std::int32_t>(trunks_.size());
    Trunk& trunk = trunks_.emplace_back();
    for (const Use& use : path(*other))
      if (free(use)) trunk.resources.push_back(use.resource);
    for (const Resource r : trunk.resources) trunk_of_[static_cast<std::size_t>(r)] = found;
    branch_off(*other, found);
    trunkless_.erase(other);
    break;
  }
  mark(0);
  if (found >= 0) return branch_off(number, found);
  if (trunkless_.size() == kMostTrunkless) trunkless_.erase(trunkless_.begin());
  trunkless_.push_back(number);
}

void MaxMin::branch_off(Way number, std::int32_t trunk) {
  const auto besides = [&](const Use& use) { return trunk_of_[static_cast<std::size_t>(use.resource)] != trunk; };
  Use* const rest = room_for(path(number).size());
  const auto end = std::ranges::copy_if(path(number), rest, besides).out;
  way(number).branch = static_cast<std::int32_t>(branches_.size());
  branches_.push_back({trunk, Path(rest, end)});
}

MaxMin::Grant& MaxMin::grant_of_trunk(std::int32_t number) {
  Trunk& trunk = trunks_[static_cast<std::size_t>(number)];
  Grant& g = trunk.grant;
  if (std::exchange(g.known, true)) return g;
  g.least = g.others = kUnlimited;
  g.narrowest = -1;
  for (const Resource r : trunk.resources) take(g, r);
  return g;
}

}  // namespace weft::sim
