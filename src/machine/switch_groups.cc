#include "machine/switch_groups.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "machine/switch_height.h"

namespace weft::topology {
namespace {

class Finder {
 public:
  explicit Finder(const Topology& topology)
      : topology_(topology), parent_(topology.devices().size()), height_(switch_heights(topology)) {
    std::iota(parent_.begin(), parent_.end(), DeviceId{0});
  }

  NodeGroups run() {
    NodeGroups levels;
    const std::int32_t top = *std::ranges::max_element(height_);
    for (std::int32_t h = 0; h <= top; ++h) {
      join_level(h);
      keep(levels);
    }
    // Switches of one height may be joined among themselves (dragonfly, torus): then everything meets at the end.
    for (const Link& l : topology_.links())
      if (l.kind == LinkKind::kNetwork) join(l.a, l.b);
    keep(levels);
    return levels;
  }

 private:
  std::int32_t height(DeviceId id) const { return height_[static_cast<std::size_t>(id)]; }

  DeviceId find(DeviceId x) {
    while (parent_[static_cast<std::size_t>(x)] != x)
      x = parent_[static_cast<std::size_t>(x)] =
          parent_[static_cast<std::size_t>(parent_[static_cast<std::size_t>(x)])];
    return x;
  }
  void join(DeviceId a, DeviceId b) { parent_[static_cast<std::size_t>(find(a))] = find(b); }

  void join_level(std::int32_t h) {
    if (h == 0) {
      first_of_.assign(static_cast<std::size_t>(topology_.nodes()), -1);
      for (DeviceId id = 0; id < static_cast<DeviceId>(topology_.devices().size()); ++id) {
        const std::int32_t node = topology_.device(id).node;
        if (node < 0) continue;
        DeviceId& first = first_of_[static_cast<std::size_t>(node)];
        if (first < 0) first = id;
        join(id, first);
      }
    }
    for (const Link& l : topology_.links()) {
      if (l.kind != LinkKind::kNetwork) continue;
      const std::int32_t a = height(l.a), b = height(l.b);
      if (std::max(a, b) == h && a != b) join(l.a, l.b);
    }
  }

  // A level that groups the nodes as the one before adds nothing.
  void keep(NodeGroups& levels) {
    std::vector<std::int32_t> group = number_groups();
    if (levels.empty() || group != levels.back()) levels.push_back(std::move(group));
  }

  std::vector<std::int32_t> number_groups() {
    std::map<DeviceId, std::int32_t> numbers;
    std::vector<std::int32_t> group;
    for (const DeviceId first : first_of_)
      group.push_back(numbers.emplace(find(first), static_cast<std::int32_t>(numbers.size())).first->second);
    return group;
  }

  const Topology& topology_;
  std::vector<DeviceId> parent_;
  std::vector<std::int32_t> height_;
  std::vector<DeviceId> first_of_;
};

}  // namespace

Result<NodeGroups> node_groups(const Topology& topology) {
  if (topology.devices_of(DeviceKind::kNetworkSwitch).empty())
    return bad_input("'{}' has no network switches", topology.title);
  return Finder(topology).run();
}

}  // namespace weft::topology
