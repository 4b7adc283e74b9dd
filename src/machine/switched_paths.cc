#include "machine/switched_paths.h"

#include <algorithm>
#include <limits>

namespace weft::topology {
namespace {

// A path cut where it first and last meets a switch that sums: up to it, between such switches, down from the last.
struct Cut {
  Path path;
  std::size_t up = 0, down = 0;  // hops before the first switch, hops before the end of the last switch's traffic
};

DeviceId end_of(const Topology& topology, const Hop& hop) {
  const Link& link = topology.link(hop.link);
  return hop.forward ? link.b : link.a;
}

class Ways {
 public:
  Ways(const Topology& topology, const Routes& routes) : topology_(topology), routes_(routes) {}

  std::optional<Cut> cut(DeviceId from, DeviceId to) const {
    Cut c{.path = routes_.path(from, to)};
    for (std::size_t i = 0; i + 1 < c.path.hops.size(); ++i) {
      if (!reduces(topology_.device(end_of(topology_, c.path.hops[i])))) continue;
      if (c.up == 0) c.up = i + 1;
      c.down = i + 1;
    }
    if (c.up == 0) return std::nullopt;
    return c;
  }

  void add(const Cut& c, std::size_t begin, std::size_t end) {
    all_.type = std::max(all_.type == PathType::kDis ? PathType::kLoc : all_.type, c.path.type);
    Duration latency;
    for (std::size_t i = begin; i < end; ++i) {
      all_.hops.push_back(c.path.hops[i]);
      latency = latency + topology_.link(c.path.hops[i].link).latency;
    }
    all_.latency = std::max(all_.latency, latency);
  }

  Path take() {
    const auto key = [](const Hop& h) { return std::pair(h.link, h.forward); };
    std::ranges::sort(all_.hops, {}, key);
    const auto doubled = std::ranges::unique(all_.hops, {}, key);
    all_.hops.erase(doubled.begin(), doubled.end());
    all_.rate = BytesPerSecond(std::numeric_limits<double>::infinity());
    for (const Hop& h : all_.hops) {
      const Link& link = topology_.link(h.link);
      all_.rate = std::min(all_.rate, h.forward ? link.rate_ab : link.rate_ba);
    }
    return std::move(all_);
  }

 private:
  const Topology& topology_;
  const Routes& routes_;
  Path all_;
};

// Some other member.
DeviceId other_than(DeviceId one, std::span<const DeviceId> members) {
  for (const DeviceId m : members)
    if (m != one) return m;
  return one;
}

// The ways between `one` and every other member in one direction, and the half of a way that brings its own data to
// the switch and back.
std::optional<Path> star(const Topology& topology, const Routes& routes, std::span<const DeviceId> members,
                         DeviceId one, bool inwards) {
  Ways ways(topology, routes);
  const DeviceId other = other_than(one, members);
  if (other == one) return std::nullopt;
  for (const DeviceId m : members) {
    if (m == one) continue;
    const auto way = inwards ? ways.cut(m, one) : ways.cut(one, m);
    if (!way) return std::nullopt;
    ways.add(*way, 0, way->path.hops.size());
  }
  const auto own = inwards ? ways.cut(one, other) : ways.cut(other, one);
  if (!own) return std::nullopt;
  inwards ? ways.add(*own, 0, own->up) : ways.add(*own, own->down, own->path.hops.size());
  return ways.take();
}

}  // namespace

bool reduces(const Device& device) { return device.facts.get("reduces") == "yes"; }

namespace {

// Whether every GPU has a link to a switch of this kind that sums: one that has lost its links, or its switch, can take
// part in no sum of the others.
bool all_gpus_joined(const Topology& topology, DeviceKind kind) {
  std::vector<DeviceId> joined;
  for (const Link& link : topology.links()) {
    const auto join = [&](DeviceId gpu, DeviceId to) {
      const Device& device = topology.device(to);
      if (topology.device(gpu).kind == DeviceKind::kGpu && device.kind == kind && reduces(device))
        joined.push_back(gpu);
    };
    if (link.count == 0) continue;
    join(link.a, link.b);
    join(link.b, link.a);
  }
  std::ranges::sort(joined);
  const auto doubled = std::ranges::unique(joined);
  joined.erase(doubled.begin(), doubled.end());
  return joined.size() == topology.devices_of(DeviceKind::kGpu).size();
}

}  // namespace

bool switches_sum(const Topology& topology, DeviceKind kind) {
  // Multicast memory is mapped on all GPUs: without peer access there is none (NCCL_P2P_DISABLE=1, p2p=loc).
  const auto forbids = [&](DeviceId id) { return topology.device(id).facts.get("p2p") == "loc"; };
  if (kind == DeviceKind::kNvSwitch && std::ranges::any_of(topology.devices_of(DeviceKind::kCpu), forbids))
    return false;
  const auto switches = topology.devices_of(kind);
  if (kind == DeviceKind::kNvSwitch && !switches.empty() && !all_gpus_joined(topology, kind)) return false;
  return !switches.empty() && std::ranges::all_of(switches, [&](DeviceId id) { return reduces(topology.device(id)); });
}

std::optional<Path> reduced_path(const Topology& topology, const Routes& routes, std::span<const DeviceId> members,
                                 DeviceId reader) {
  return star(topology, routes, members, reader, true);
}

std::optional<Path> multicast_path(const Topology& topology, const Routes& routes, std::span<const DeviceId> members,
                                   DeviceId writer) {
  return star(topology, routes, members, writer, false);
}

std::optional<Path> path_into_switch(const Topology& topology, const Routes& routes, std::span<const DeviceId> members,
                                     DeviceId member) {
  Ways ways(topology, routes);
  const auto way = ways.cut(member, other_than(member, members));
  if (!way) return std::nullopt;
  ways.add(*way, 0, way->up);
  return ways.take();
}

std::optional<Path> path_from_switches(const Topology& topology, const Routes& routes,
                                       std::span<const DeviceId> members) {
  Ways ways(topology, routes);
  const DeviceId first = members.front();
  for (const DeviceId m : members) {
    if (m == first) continue;
    for (const auto& [from, to] : {std::pair(first, m), std::pair(m, first)}) {
      const auto way = ways.cut(from, to);
      if (!way) return std::nullopt;
      ways.add(*way, way->up, way->path.hops.size());
    }
  }
  Path all = ways.take();
  if (all.hops.empty()) return std::nullopt;
  return all;
}

}  // namespace weft::topology
