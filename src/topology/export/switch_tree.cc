#include "topology/export/switch_tree.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "topology/import/hostlist.h"
#include "topology/import/network_tree.h"

namespace weft::topology {
namespace {

// Groups of nodes that meet below ever higher switches, from leaves up. groups[level][node] is a group's number.
struct Levels {
  std::vector<std::vector<std::int32_t>> groups;
};

class Finder {
 public:
  explicit Finder(const Topology& topology)
      : topology_(topology), parent_(topology.devices().size()), height_(topology.devices().size(), -1) {
    std::iota(parent_.begin(), parent_.end(), DeviceId{0});
  }

  // The height of a switch is its distance from the nearest NIC: leaves 0, spines 1.
  Levels run() {
    std::vector<DeviceId> now;
    for (const Link& l : topology_.links()) {
      if (l.kind != LinkKind::kNetwork) continue;
      for (const auto& [nic, other] : {std::pair(l.a, l.b), std::pair(l.b, l.a)})
        if (topology_.device(nic).node >= 0 && topology_.device(other).node < 0 && height(other) < 0) {
          height(other) = 0;
          now.push_back(other);
        }
    }
    Levels levels;
    for (std::int32_t h = 0; !now.empty(); ++h) {
      std::vector<DeviceId> next;
      for (const DeviceId s : now)
        for (const LinkId l : topology_.links_of(s)) {
          const DeviceId to = topology_.other_end(l, s);
          if (topology_.device(to).node < 0 && height(to) < 0) {
            height(to) = h + 1;
            next.push_back(to);
          }
        }
      join_level(h);
      std::vector<std::int32_t> group = number_groups();
      if (levels.groups.empty() || group != levels.groups.back()) levels.groups.push_back(std::move(group));
      now = std::move(next);
    }
    // Switches of one height may be joined among themselves (dragonfly, torus): then everything meets at the end.
    for (const Link& l : topology_.links())
      if (l.kind == LinkKind::kNetwork) join(l.a, l.b);
    std::vector<std::int32_t> group = number_groups();
    if (group != levels.groups.back()) levels.groups.push_back(std::move(group));
    return levels;
  }

 private:
  std::int32_t& height(DeviceId id) { return height_[static_cast<std::size_t>(id)]; }

  DeviceId find(DeviceId x) {
    while (parent_[static_cast<std::size_t>(x)] != x)
      x = parent_[static_cast<std::size_t>(x)] = parent_[static_cast<std::size_t>(parent_[static_cast<std::size_t>(x)])];
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

Result<Levels> find_levels(const Topology& topology) {
  const bool network =
      std::ranges::any_of(topology.devices(), [](const Device& d) { return d.kind == DeviceKind::kNetworkSwitch; });
  if (!network) return bad_input("'{}' has no network switches", topology.title);
  return Finder(topology).run();
}

std::string switch_name(std::size_t level, std::int32_t group) {
  static constexpr const char* kNames[] = {"leaf", "spine", "core"};
  return level < 3 ? fmt::format("{}{}", kNames[level], group) : fmt::format("level{}_{}", level, group);
}

}  // namespace

Result<std::string> to_slurm(const Topology& topology) {
  WEFT_TRY(const Levels levels, find_levels(topology));
  const std::vector<std::string> names = host_names(topology);
  std::string text = fmt::format("# {}: topology/tree, written by weft\n", topology.title);
  for (std::size_t level = 0; level < levels.groups.size(); ++level) {
    std::map<std::int32_t, std::vector<std::string>> below;
    for (std::size_t n = 0; n < names.size(); ++n) {
      std::vector<std::string>& members = below[levels.groups[level][n]];
      const std::string member = level == 0 ? names[n] : switch_name(level - 1, levels.groups[level - 1][n]);
      if (members.empty() || members.back() != member)
        if (level == 0 || std::ranges::find(members, member) == members.end()) members.push_back(member);
    }
    for (const auto& [group, members] : below)
      text += fmt::format("SwitchName={} {}={}\n", switch_name(level, group), level == 0 ? "Nodes" : "Switches",
                          compress_hostlist(members));
  }
  return text;
}

Result<std::string> to_kubernetes(const Topology& topology) {
  WEFT_TRY(const Levels levels, find_levels(topology));
  const std::vector<std::string> names = host_names(topology);
  static constexpr const char* kLabels[] = {"leaf", "spine", "core"};
  std::string text;
  for (std::size_t n = 0; n < names.size(); ++n) {
    text += fmt::format(
        "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: {}\n  labels:\n"
        "    network.topology.nvidia.com/accelerator: domain{}\n",
        names[n], n);
    for (std::size_t level = 0; level < std::min<std::size_t>(levels.groups.size(), 3); ++level)
      text += fmt::format("    network.topology.nvidia.com/{}: {}\n", kLabels[level],
                          switch_name(level, levels.groups[level][n]));
  }
  return text;
}

}  // namespace weft::topology
