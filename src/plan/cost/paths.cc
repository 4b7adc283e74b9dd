#include "plan/cost/paths.h"

#include <optional>

namespace weft::cost {

using schedule::Operand;

Number Paths::between(Rank from, Rank to) {
  const auto ends = static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(to);
  const auto [at, added] = by_ends_.try_emplace(ends, static_cast<Number>(paths_.size()));
  if (added) keep(machine_.routes().path(device(from), device(to)), {.from = from, .to = to});
  return at->second;
}

Number Paths::of_group(Rank rank, const Operand& group, Way way, bool by_switch) {
  const auto [at, added] = ways_.try_emplace({rank, this->group(group), way}, static_cast<Number>(paths_.size()));
  if (added)
    keep(find(rank, group, way, by_switch), {.kind = {.by_switch = by_switch},
                                             .of_group = true,
                                             .from = group.peer,
                                             .to = group.group().member(group.count - 1)});
  return at->second;
}

Number Paths::group(const Operand& o) {
  return groups_.try_emplace({o.peer, o.count, o.stride}, static_cast<Number>(groups_.size())).first->second;
}

topology::Path Paths::find(Rank rank, const Operand& o, Way way, bool by_switch) const {
  const topology::Topology& topology = machine_.topology();
  const topology::Routes& routes = machine_.routes();
  if (!by_switch)
    return routes.path(device(rank), device(o.count == 1 || o.peer != rank ? o.peer : o.group().member(1)));
  std::vector<topology::DeviceId> members;
  for (Rank i = 0; i < o.count; ++i) members.push_back(device(o.group().member(i)));
  std::optional<topology::Path> path;
  switch (way) {
    case Way::kLoad:
      path = topology::reduced_path(topology, routes, members, device(rank));
      break;
    case Way::kStore:
      path = topology::multicast_path(topology, routes, members, device(rank));
      break;
    case Way::kUp:
      path = topology::path_into_switch(topology, routes, members, device(rank));
      break;
    case Way::kDown:
      path = topology::path_from_switches(topology, routes, members);
      break;
  }
  return path.value_or(topology::Path());
}

Number Paths::keep(const topology::Path& path, Path about) {
  about.kind.type = path.type;
  about.latency = path.latency;
  about.first = static_cast<Number>(hops_.size());
  about.hops = static_cast<Number>(path.hops.size());
  const auto number = [&](std::int64_t direction) {
    const auto [at, added] = by_direction_.try_emplace(direction, static_cast<Number>(directions_.size()));
    if (added) directions_.push_back(direction);
    return at->second;
  };
  for (const topology::Hop& h : path.hops) hops_.push_back(number(2 * h.link + (h.forward ? 0 : 1)));
  paths_.push_back(about);
  return static_cast<Number>(paths_.size() - 1);
}

}  // namespace weft::cost
