#include "machine/render/levels.h"

#include <algorithm>
#include <map>
#include <utility>

#include "machine/switch_height.h"

namespace weft::topology {
namespace {

using Switches = std::vector<DeviceId>;

MapLevel level(std::string word, std::vector<std::int32_t> sizes) {
  MapLevel l{.word = std::move(word), .count = static_cast<std::int64_t>(sizes.size()), .sizes = std::move(sizes)};
  if (std::ranges::adjacent_find(l.sizes, std::ranges::not_equal_to()) == l.sizes.end() && !l.sizes.empty())
    l.sizes.resize(1);
  return l;
}

void make_set(Switches& switches) {
  std::ranges::sort(switches);
  switches.erase(std::ranges::unique(switches).begin(), switches.end());
}

}  // namespace

std::vector<MapLevel> map_levels(const Topology& topology) {
  const std::vector<std::int32_t> height = switch_heights(topology);
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(topology.nodes()), 0);
  for (const DeviceId id : topology.endpoints()) ++ranks[static_cast<std::size_t>(topology.device(id).node)];
  std::vector<MapLevel> levels{level("node", std::move(ranks))};
  // The switches that each member of the level is joined to from below.
  std::vector<Switches> above(static_cast<std::size_t>(topology.nodes()));
  for (const Link& l : topology.links())
    for (const auto& [from, to] : {std::pair(l.a, l.b), std::pair(l.b, l.a)})
      if (topology.device(from).node >= 0 && height[static_cast<std::size_t>(to)] == 0)
        above[static_cast<std::size_t>(topology.device(from).node)].push_back(to);
  for (std::int32_t h = 0; above.size() > 1; ++h) {
    bool joined = false;
    for (Switches& switches : above) make_set(switches), joined = joined || !switches.empty();
    if (!joined) break;
    std::map<Switches, std::size_t> group_of;
    std::vector<std::int32_t> sizes;
    for (const Switches& switches : above) {
      const auto [at, fresh] = group_of.try_emplace(switches, sizes.size());
      if (fresh) sizes.push_back(0);
      ++sizes[at->second];
    }
    // A tier with as many groups as members joins nothing that the tier above would not.
    const bool groups = sizes.size() < above.size();
    if (groups)
      levels.push_back(level(h > 0                 ? (levels.size() > 2 ? "group" : "pod")
                             : above[0].size() > 1 ? "rail group"
                                                   : "leaf",
                             sizes));
    std::vector<Switches> next(groups ? sizes.size() : above.size());
    for (std::size_t member = 0; member < above.size(); ++member) {
      Switches& into = next[groups ? group_of.at(above[member]) : member];
      if (!into.empty()) continue;  // all members of a group hang at the same switches
      for (const DeviceId s : above[member])
        for (const LinkId l : topology.links_of(s))
          if (const DeviceId up = topology.other_end(l, s); height[static_cast<std::size_t>(up)] == h + 1)
            into.push_back(up);
    }
    above = std::move(next);
  }
  return levels;
}

}  // namespace weft::topology
