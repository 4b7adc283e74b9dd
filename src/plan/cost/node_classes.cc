#include "plan/cost/node_classes.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string_view>

namespace weft::cost {

using topology::Device;
using topology::DeviceId;
using topology::DeviceKind;
using topology::Link;
using topology::Topology;

namespace {

using Color = std::uint64_t;

// The finaliser of MurmurHash3, of one number after the other. Colours of sets are sums of those of their members.
Color mix(Color h) {
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53ULL;
  return h ^ h >> 33;
}
template <class... Parts>
Color color(Parts... parts) {
  Color h = 0x9e3779b97f4a7c15ULL;
  ((h = mix(h ^ static_cast<Color>(parts))), ...);
  return h;
}
Color color_of(std::string_view text) { return std::hash<std::string_view>{}(text); }
Color bits(BytesPerSecond rate) { return std::bit_cast<Color>(rate.value()); }

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Of a device within its node. Facts count, but not where in a torus it is.
Color of_device(const Device& d) {
  Color facts = 0;
  for (const auto& [key, value] : d.facts)
    if (key != "at") facts += color(color_of(key), color_of(value));
  return color(d.kind, d.index, color_of(d.model), facts);
}

// A link as one of its ends sees it.
Color of_link(const Link& l, DeviceId from, Color other) {
  const bool forward = l.a == from;
  return color(l.kind, bits(forward ? l.rate_ab : l.rate_ba), bits(forward ? l.rate_ba : l.rate_ab), l.latency.ps(),
               l.count, other);
}

// The colour of every network switch, by its uplinks; of links to switches of its own tier only the kinds count.
std::vector<Color> of_switches(const Topology& topology, const std::vector<int>& tiers) {
  std::vector<DeviceId> switches(topology.devices_of(DeviceKind::kNetworkSwitch).begin(),
                                 topology.devices_of(DeviceKind::kNetworkSwitch).end());
  std::ranges::sort(switches, std::greater{}, [&](DeviceId d) { return tiers[at(d)]; });
  std::vector<Color> colors(tiers.size());
  for (const DeviceId d : switches) {
    Color up = color(topology.device(d).kind, tiers[at(d)]);
    std::set<Color> beside;
    for (const topology::LinkId id : topology.links_of(d)) {
      const DeviceId other = topology.other_end(id, d);
      if (tiers[at(other)] > tiers[at(d)]) up += of_link(topology.link(id), d, colors[at(other)]);
      if (tiers[at(other)] == tiers[at(d)]) beside.insert(of_link(topology.link(id), d, 0));
    }
    for (const Color c : beside) up += c;
    colors[at(d)] = mix(up);
  }
  return colors;
}

}  // namespace

std::vector<int> tiers_of(const Topology& topology) {
  std::vector<int> tiers(topology.devices().size());
  std::vector<DeviceId> next;
  const auto rise = [&](DeviceId from, int tier) {
    for (const topology::LinkId id : topology.links_of(from)) {
      const DeviceId other = topology.other_end(id, from);
      if (topology.device(other).kind != DeviceKind::kNetworkSwitch || tiers[at(other)] > 0) continue;
      tiers[at(other)] = tier;
      next.push_back(other);
    }
  };
  for (DeviceId d = 0; d < static_cast<DeviceId>(tiers.size()); ++d)
    if (topology.device(d).kind != DeviceKind::kNetworkSwitch) rise(d, 1);
  for (std::size_t i = 0; i < next.size(); ++i) rise(next[i], tiers[at(next[i])] + 1);
  return tiers;
}

std::vector<std::int32_t> node_classes(const Topology& topology) {
  const std::vector<Color> of_switch = of_switches(topology, tiers_of(topology));
  std::vector<Color> colors(at(topology.nodes()));
  for (const Device& d : topology.devices())
    if (d.node >= 0) colors[at(d.node)] += of_device(d);
  const auto seen_from = [&](const Link& l, DeviceId from, DeviceId to) {
    const Device &own = topology.device(from), &other = topology.device(to);
    if (own.node < 0) return;
    const Color there = other.kind == DeviceKind::kNetworkSwitch ? of_switch[at(to)] : color(other.kind, other.index);
    colors[at(own.node)] += of_link(l, from, color(own.kind, own.index, there, own.node == other.node));
  };
  for (const Link& l : topology.links()) {
    seen_from(l, l.a, l.b);
    seen_from(l, l.b, l.a);
  }
  std::map<Color, std::int32_t> numbers;
  std::vector<std::int32_t> classes;
  for (const Color c : colors)
    classes.push_back(numbers.try_emplace(c, static_cast<std::int32_t>(numbers.size())).first->second);
  return classes;
}

}  // namespace weft::cost
