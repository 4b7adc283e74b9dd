#include "model/sim/packet/shortest_ways.h"

#include <algorithm>
#include <map>

namespace weft::sim {
namespace {

using topology::DeviceId;

DeviceId from_of(const topology::Topology& t, MaxMin::Resource link) {
  const topology::Link& l = t.link(link / 2);
  return link % 2 == 0 ? l.a : l.b;
}
DeviceId to_of(const topology::Topology& t, MaxMin::Resource link) { return from_of(t, link ^ 1); }

bool is_network(const topology::Topology& t, MaxMin::Resource link) {
  return t.link(link / 2).kind == topology::LinkKind::kNetwork;
}

// Searches from the network's entry to its exit.
class Search {
 public:
  Search(const topology::Topology& t, DeviceId from, DeviceId to, std::size_t hops, std::size_t most)
      : topology_(t), from_(from), to_(to), hops_(hops), most_(most) {
    distance_[to] = 0;
    std::vector<DeviceId> reached = {to};
    for (std::size_t i = 0; i < reached.size(); ++i) {
      const std::size_t next = distance_[reached[i]] + 1;
      if (next > hops) break;
      for (const topology::LinkId link : t.links_of(reached[i])) {
        const DeviceId other = t.other_end(link, reached[i]);
        const bool passes = t.device(other).kind == topology::DeviceKind::kNetworkSwitch || other == from;
        if (t.link(link).kind != topology::LinkKind::kNetwork || !passes) continue;
        if (distance_.emplace(other, next).second) reached.push_back(other);
      }
    }
  }

  std::vector<std::vector<MaxMin::Resource>> ways() {
    if (distance_.contains(from_) && distance_[from_] == hops_) go_on(from_);
    return std::move(found_);
  }

 private:
  void go_on(DeviceId at) {
    if (at == to_) return found_.push_back(way_);
    for (const topology::LinkId link : topology_.links_of(at)) {
      if (found_.size() == most_) return;
      const DeviceId other = topology_.other_end(link, at);
      const auto distance = distance_.find(other);
      if (topology_.link(link).kind != topology::LinkKind::kNetwork || distance == distance_.end() ||
          distance->second + 1 != distance_[at])
        continue;
      way_.push_back(2 * link + (topology_.link(link).a == at ? 0 : 1));
      go_on(other);
      way_.pop_back();
    }
  }

  const topology::Topology& topology_;
  DeviceId from_, to_;
  std::size_t hops_, most_;
  std::map<DeviceId, std::size_t> distance_;  // links to `to_`
  std::vector<MaxMin::Resource> way_;
  std::vector<std::vector<MaxMin::Resource>> found_;
};

}  // namespace

std::vector<std::vector<MaxMin::Use>> shortest_ways(const topology::Topology& topology, MaxMin::Path path,
                                                    std::size_t most) {
  std::vector<std::vector<MaxMin::Use>> ways = {{path.begin(), path.end()}};
  const std::vector<MaxMin::Use>& given = ways.front();
  const auto across = [&](const MaxMin::Use& use) { return is_network(topology, use.resource); };
  for (std::size_t h = 0; h < given.size(); ++h)
    if (given[h].times != 1 ||
        (h > 0 && to_of(topology, given[h - 1].resource) != from_of(topology, given[h].resource)))
      return ways;
  const auto first = std::ranges::find_if(given, across);
  const auto after = std::find_if_not(first, given.end(), across);
  if (after - first < 2) return ways;
  Search search(topology, from_of(topology, first->resource), to_of(topology, (after - 1)->resource),
                static_cast<std::size_t>(after - first), most);
  const std::vector<MaxMin::Use> before(given.begin(), first), beyond(after, given.end()), middle(first, after);
  for (const std::vector<MaxMin::Resource>& found : search.ways()) {
    if (ways.size() == most) break;
    if (std::ranges::equal(found, middle, {}, {}, &MaxMin::Use::resource)) continue;
    std::vector<MaxMin::Use>& way = ways.emplace_back(before);
    for (const MaxMin::Resource link : found) way.push_back({link});
    way.insert(way.end(), beyond.begin(), beyond.end());
  }
  return ways;
}

}  // namespace weft::sim
