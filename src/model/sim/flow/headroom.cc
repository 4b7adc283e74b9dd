#include "model/sim/flow/headroom.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace weft::sim {

void Headroom::add(double capacity) {
  binds_.push_back(given_up_ ? 1 : 0);
  capacities_.push_back(capacity);
  links_.emplace_back();
}

bool Headroom::narrower(Resource a, Resource b) const {
  return std::tuple(capacity(a), a) < std::tuple(capacity(b), b);
}

// -1: none.
Headroom::Resource Headroom::bottleneck_of(Path path, std::size_t place) const {
  const auto is_bottleneck = [&](std::size_t other) {
    return path[other].times == path[place].times && narrower(path[other].resource, path[place].resource);
  };
  for (std::size_t away = 1; away < path.size(); ++away) {
    if (place >= away && is_bottleneck(place - away)) return path[place - away].resource;
    if (place + away < path.size() && is_bottleneck(place + away)) return path[place + away].resource;
  }
  return -1;
}

double Headroom::brought_by(const Group& group) const {
  if (group.bottleneck < 0) return group.wanted;
  return std::min(group.wanted, capacity(group.bottleneck));
}

void Headroom::bind(Resource r) {
  binds_[static_cast<std::size_t>(r)] = 1;
  link(r).groups = {};
  newly_.push_back(r);
}

std::span<const Headroom::Resource> Headroom::claim(Way way, Path path, double more, bool first) {
  newly_.clear();
  for (std::size_t place = 0; place < path.size(); ++place) {
    const auto [r, times] = path[place];
    if (binds(r)) continue;
    Link& l = link(r);
    if (first) l.ways.push_back(way);
    const Resource bottleneck = bottleneck_of(path, place);
    auto group = std::ranges::find(l.groups, bottleneck, &Group::bottleneck);
    if (group == l.groups.end()) group = l.groups.insert(group, {bottleneck, 0});
    const double before = brought_by(*group);
    group->wanted += more * times;
    l.claimed += brought_by(*group) - before;
    if (l.claimed > capacity(r) * (1 + 1e-12) || l.ways.size() > kMostWays) bind(r);
  }
  return newly_;
}

std::span<const Headroom::Resource> Headroom::give_up() {
  newly_.clear();
  given_up_ = true;
  for (Resource r = 0; r < static_cast<Resource>(links_.size()); ++r)
    if (!binds(r)) bind(r);
  return newly_;
}

std::vector<Headroom::Way> Headroom::take_ways(Resource r) { return std::exchange(link(r).ways, {}); }

}  // namespace weft::sim
