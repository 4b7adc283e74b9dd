#include "model/sim/packet/way.h"

#include <algorithm>
#include <set>

namespace weft::sim {
namespace {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

topology::DeviceId Ways::end_of(MaxMin::Resource link, bool far) const {
  const topology::Link& l = topology_.link(link / 2);
  return (link % 2 == 0) == far ? l.b : l.a;
}

// How many links each device is away from the nearest one where the tree ends.
std::map<topology::DeviceId, int> Ways::heights(const Way& way) const {
  std::map<topology::DeviceId, std::set<topology::DeviceId>> neighbours;
  for (const Way::Hop& hop : way.hops) {
    neighbours[end_of(hop.link, false)].insert(end_of(hop.link, true));
    neighbours[end_of(hop.link, true)].insert(end_of(hop.link, false));
  }
  std::map<topology::DeviceId, int> heights;
  std::vector<topology::DeviceId> reached;
  for (const auto& [device, others] : neighbours)
    if (others.size() == 1) {
      heights[device] = 0;
      reached.push_back(device);
    }
  for (std::size_t i = 0; i < reached.size(); ++i)
    for (const topology::DeviceId other : neighbours[reached[i]])
      if (heights.emplace(other, heights[reached[i]] + 1).second) reached.push_back(other);
  return heights;
}

// A chain if every link begins where the one before ended, else a tree: up to switches and down from them. What has
// come down does not go up again.
void Ways::connect(Way& way) const {
  std::vector<Way::Hop>& hops = way.hops;
  const auto meet = [&](const Way::Hop& a, const Way::Hop& b) { return end_of(a.link, true) == end_of(b.link, false); };
  const auto join = [&](std::size_t a, std::size_t b) {
    hops[a].next.push_back(static_cast<std::int32_t>(b));
    hops[b].from = static_cast<std::int32_t>(a);
    ++hops[b].before;
  };
  bool chain = true;
  for (std::size_t h = 1; h < hops.size(); ++h) chain &= meet(hops[h - 1], hops[h]);
  if (chain) {
    for (std::size_t h = 1; h < hops.size(); ++h) join(h - 1, h);
    return;
  }
  auto height = heights(way);
  const auto up = [&](const Way::Hop& hop) { return height[end_of(hop.link, true)] > height[end_of(hop.link, false)]; };
  for (std::size_t a = 0; a < hops.size(); ++a)
    for (std::size_t b = 0; b < hops.size(); ++b)
      if (meet(hops[a], hops[b]) && (up(hops[a]) || !up(hops[b]))) join(a, b);
}

// One size all the way: the network's packets, else those of the scale-up links, a packet on each link of a bundle.
Bytes Ways::payload_of(const Way& way) const {
  if (options_.payload > 0) return options_.payload;
  Bytes largest = 0, least_bundle = 0;
  for (const Way::Hop& hop : way.hops) {
    const LinkRules& rules = rules_of(hop.link);
    if (!rules.side_by_side) {
      largest = std::max(largest, rules.payload);
      continue;
    }
    const Bytes bundle = rules.payload * std::max(1, topology_.link(hop.link / 2).count);
    least_bundle = least_bundle == 0 ? bundle : std::min(least_bundle, bundle);
  }
  return std::max({largest, least_bundle, Bytes{1}});
}

Way Ways::way(MaxMin::Path path) const {
  Way way;
  for (const auto [link, times] : path) {
    const LinkRules& rules = rules_of(link);
    for (std::int32_t i = 0; i < times; ++i)
      way.hops.push_back({.link = link,
                          .next = {},
                          .payload = options_.payload > 0 ? options_.payload : rules.payload,
                          .overhead = rules.overhead});
  }
  connect(way);
  way.payload = payload_of(way);
  std::vector<Duration> reached(way.hops.size());
  for (std::size_t pass = 0; pass < way.hops.size(); ++pass) {  // hops of a tree come in any order
    for (std::size_t h = 0; h < way.hops.size(); ++h) {
      const Way::Hop& hop = way.hops[h];
      reached[h] = topology_.link(hop.link / 2).latency + (hop.from < 0 ? Duration() : reached[index(hop.from)]);
    }
  }
  for (std::size_t h = 0; h < way.hops.size(); ++h) {
    Way::Hop& hop = way.hops[h];
    hop.per_payload = Way::framed(hop, way.payload) / static_cast<double>(way.payload);
    way.ends += hop.next.empty();
    way.latency = std::max(way.latency, reached[h]);
  }
  return way;
}

}  // namespace weft::sim
