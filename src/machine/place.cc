#include "machine/place.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "base/check.h"
#include "base/counted.h"

namespace weft::topology {
namespace {

using Nodes = std::vector<std::int32_t>;

// The members of each group at a level.
std::map<std::int32_t, Nodes> split(const std::vector<std::int32_t>& groups, const Nodes& nodes) {
  std::map<std::int32_t, Nodes> parts;
  for (const std::int32_t n : nodes) parts[groups[static_cast<std::size_t>(n)]].push_back(n);
  return parts;
}

// Takes `count` of `nodes`, which share a switch above `level`: the smallest group that holds them all, or else the
// largest whole and the rest of the others.
void take(const NodeGroups& groups, std::size_t level, Nodes nodes, std::size_t count, Nodes& taken) {
  if (level == 0) {
    taken.insert(taken.end(), nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(count));
    return;
  }
  std::map<std::int32_t, Nodes> parts = split(groups[level - 1], nodes);
  while (count > 0) {
    auto best = parts.end();
    for (auto part = parts.begin(); part != parts.end(); ++part) {
      const std::size_t size = part->second.size(), known = best == parts.end() ? 0 : best->second.size();
      const bool fits = size >= count, best_fits = known >= count;
      if (best == parts.end() || (fits && (!best_fits || size < known)) || (!fits && !best_fits && size > known))
        best = part;
    }
    const std::size_t now = std::min(count, best->second.size());
    take(groups, level - 1, std::move(best->second), now, taken);
    count -= now;
    parts.erase(best);
  }
}

Status enough(std::size_t free, std::int32_t count) {
  if (count >= 1 && static_cast<std::size_t>(count) <= free) return {};
  return bad_input("{} are asked for, {} are free", counted(count, "node"), free);
}

}  // namespace

Result<Nodes> choose_nodes(const NodeGroups& groups, std::span<const std::int32_t> free, std::int32_t count) {
  WEFT_CHECK(enough(free.size(), count));
  const Nodes all(free.begin(), free.end());
  for (std::size_t level = 0; level < groups.size(); ++level) {
    const std::map<std::int32_t, Nodes> parts = split(groups[level], all);
    const Nodes* best = nullptr;
    for (const auto& [group, members] : parts)
      if (members.size() >= static_cast<std::size_t>(count) && (!best || members.size() < best->size()))
        best = &members;
    if (!best) continue;
    Nodes taken;
    take(groups, level, *best, static_cast<std::size_t>(count), taken);
    return taken;
  }
  return bad_input("no {} can reach each other", counted(count, "free node"));
}

Result<Nodes> scatter_nodes(std::span<const std::int32_t> free, std::int32_t count, std::uint64_t seed) {
  WEFT_CHECK(enough(free.size(), count));
  Nodes all(free.begin(), free.end());
  std::mt19937_64 random(seed);
  // Written out: std::shuffle may draw differently elsewhere.
  for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random() % i]);
  all.resize(static_cast<std::size_t>(count));
  return all;
}

Result<Nodes> spread_nodes(const NodeGroups& groups, std::span<const std::int32_t> free, std::int32_t count,
                           std::int32_t leaves) {
  WEFT_CHECK(enough(free.size(), count));
  std::vector<Nodes> parts;
  for (auto& [leaf, nodes] : split(groups[0], Nodes(free.begin(), free.end()))) parts.push_back(std::move(nodes));
  std::ranges::stable_sort(parts, std::greater(), &Nodes::size);
  if (leaves > 0 && static_cast<std::size_t>(leaves) < parts.size()) parts.resize(static_cast<std::size_t>(leaves));
  std::vector<std::size_t> taken(parts.size());
  for (std::int32_t left = count; left > 0;) {
    const std::int32_t before = left;
    for (std::size_t p = 0; p < parts.size() && left > 0; ++p)
      if (taken[p] < parts[p].size()) ++taken[p], --left;
    if (left == before)
      return bad_input("{} leaf switches have fewer than {}", parts.size(), counted(count, "free node"));
  }
  Nodes chosen;
  for (std::size_t p = 0; p < parts.size(); ++p)
    chosen.insert(chosen.end(), parts[p].begin(), parts[p].begin() + static_cast<std::ptrdiff_t>(taken[p]));
  return chosen;
}

Topology subset(const Topology& topology, std::span<const std::int32_t> nodes) {
  std::map<std::int32_t, std::int32_t> number;
  for (const std::int32_t n : nodes) number.emplace(n, static_cast<std::int32_t>(number.size()));
  WEFT_REQUIRE(number.size() == nodes.size(), "{} of {} nodes are different", number.size(), nodes.size());
  Topology part;
  part.title = topology.title;
  part.routing = topology.routing;
  std::vector<DeviceId> kept(topology.devices().size(), -1);
  for (DeviceId id = 0; id < static_cast<DeviceId>(topology.devices().size()); ++id) {
    Device device = topology.device(id);
    if (device.node >= 0) {
      const auto at = number.find(device.node);
      if (at == number.end()) continue;
      device.node = at->second;
    }
    kept[static_cast<std::size_t>(id)] = part.add(std::move(device));
  }
  for (Link link : topology.links()) {
    link.a = kept[static_cast<std::size_t>(link.a)];
    link.b = kept[static_cast<std::size_t>(link.b)];
    if (link.a >= 0 && link.b >= 0) part.connect(link);
  }
  return part;
}

}  // namespace weft::topology
