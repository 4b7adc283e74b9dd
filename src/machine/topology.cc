#include "machine/topology.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "base/text.h"

namespace weft::topology {

std::string_view name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kGpu:
      return "gpu";
    case DeviceKind::kCore:
      return "core";
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kMemory:
      return "memory";
    case DeviceKind::kPcieSwitch:
      return "pcie-switch";
    case DeviceKind::kNvSwitch:
      return "nvswitch";
    case DeviceKind::kNic:
      return "nic";
    case DeviceKind::kNetworkSwitch:
      return "switch";
  }
  return "?";
}

std::string_view name(LinkKind kind) {
  switch (kind) {
    case LinkKind::kNvlink:
      return "NVLink";
    case LinkKind::kXgmi:
      return "XGMI";
    case LinkKind::kChipLink:
      return "chip link";
    case LinkKind::kPcie:
      return "PCIe";
    case LinkKind::kInterSocket:
      return "inter-socket";
    case LinkKind::kMemory:
      return "memory";
    case LinkKind::kNetwork:
      return "network";
  }
  return "?";
}

std::string_view name(PathType type) {
  switch (type) {
    case PathType::kLoc:
      return "LOC";
    case PathType::kNvl:
      return "NVL";
    case PathType::kPix:
      return "PIX";
    case PathType::kPxb:
      return "PXB";
    case PathType::kPhb:
      return "PHB";
    case PathType::kSys:
      return "SYS";
    case PathType::kNet:
      return "NET";
    case PathType::kDis:
      return "DIS";
  }
  return "?";
}

std::string_view name(Routing::Policy policy) {
  switch (policy) {
    case Routing::Policy::kEcmp:
      return "ecmp";
    case Routing::Policy::kShortest:
      return "shortest";
    case Routing::Policy::kAdaptive:
      return "adaptive";
  }
  return "?";
}

std::optional<Routing::Policy> policy_named(std::string_view text) {
  using enum Routing::Policy;
  for (const Routing::Policy policy : {kEcmp, kShortest, kAdaptive})
    if (name(policy) == text) return policy;
  return std::nullopt;
}

std::string_view Facts::get(std::string_view key) const {
  for (const auto& [name, value] : facts_)
    if (name == key) return value;
  return {};
}

void Facts::set(std::string_view key, std::string_view value) {
  for (auto& [name, old] : facts_)
    if (name == key) {
      old = value;
      return;
    }
  facts_.emplace_back(key, value);
}

void Topology::set_fact(DeviceId id, std::string_view key, std::string_view value) {
  devices_[static_cast<std::size_t>(id)].facts.set(key, shown(value));
}

DeviceId Topology::add(Device device) {
  const auto id = static_cast<DeviceId>(devices_.size());
  nodes_ = std::max(nodes_, device.node + 1);
  device.model = shown(device.model);  // what came from a file reaches terminals by many commands
  device.bus_id = shown(device.bus_id);
  by_kind_[static_cast<std::size_t>(device.kind)].push_back(id);
  devices_.push_back(std::move(device));
  adjacency_.emplace_back();
  return id;
}

LinkId Topology::connect(Link link) {
  const auto count = static_cast<DeviceId>(devices_.size());
  WEFT_REQUIRE(link.a >= 0 && link.a < count && link.b >= 0 && link.b < count, "{} - {} of {}", link.a, link.b, count);
  WEFT_REQUIRE(link.a != link.b, "device {}", link.a);
  const auto id = static_cast<LinkId>(links_.size());
  adjacency_[static_cast<std::size_t>(link.a)].push_back(id);
  adjacency_[static_cast<std::size_t>(link.b)].push_back(id);
  links_.push_back(link);
  return id;
}

DeviceId Topology::other_end(LinkId id, DeviceId from) const {
  const Link& l = link(id);
  WEFT_REQUIRE(l.a == from || l.b == from, "link {} does not touch device {}", id, from);
  return l.a == from ? l.b : l.a;
}

std::vector<DeviceId> Topology::endpoints() const {
  const auto gpus = devices_of(DeviceKind::kGpu), ends = gpus.empty() ? devices_of(DeviceKind::kCore) : gpus;
  std::vector<DeviceId> found(ends.begin(), ends.end());
  const auto order = [this](DeviceId id) { return std::tuple(device(id).node, device(id).index, id); };
  if (!std::ranges::is_sorted(found, {}, order)) std::ranges::sort(found, {}, order);  // most machines' are
  return found;
}

std::string Topology::name_of(DeviceId id) const {
  const Device& d = device(id);
  const std::string own = fmt::format("{}{}", name(d.kind), d.index);
  return d.node < 0 || nodes() <= 1 ? own : fmt::format("node{}/{}", d.node, own);
}

Status Topology::validate() const {
  for (const Link& l : links_)
    if (!(l.rate_ab.value() > 0) || !(l.rate_ba.value() > 0))
      return bad_input("the {} link between {} and {} has no bandwidth", name(l.kind), name_of(l.a), name_of(l.b));

  const std::vector<DeviceId> ends = endpoints();
  if (ends.empty()) return bad_input("'{}' has neither a GPU nor a CPU core that a rank could sit on", title);
  std::vector<bool> reached(devices_.size());
  std::vector<DeviceId> open = {ends[0]};
  reached[static_cast<std::size_t>(ends[0])] = true;
  while (!open.empty()) {
    const DeviceId at = open.back();
    open.pop_back();
    for (const LinkId l : links_of(at)) {
      const DeviceId to = other_end(l, at);
      if (reached[static_cast<std::size_t>(to)]) continue;
      reached[static_cast<std::size_t>(to)] = true;
      open.push_back(to);
    }
  }
  for (const DeviceId id : ends)
    if (!reached[static_cast<std::size_t>(id)]) return bad_input("{} cannot reach {}", name_of(id), name_of(ends[0]));
  return {};
}

}  // namespace weft::topology
