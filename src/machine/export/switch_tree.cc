#include "machine/export/switch_tree.h"

#include <algorithm>
#include <map>
#include <vector>

#include "machine/import/hostlist.h"
#include "machine/import/network_tree.h"
#include "machine/switch_groups.h"

namespace weft::topology {
namespace {

std::string switch_name(std::size_t level, std::int32_t group) {
  static constexpr const char* kNames[] = {"leaf", "spine", "core"};
  return level < 3 ? fmt::format("{}{}", kNames[level], group) : fmt::format("level{}_{}", level, group);
}

}  // namespace

Result<std::string> to_slurm(const Topology& topology) {
  WEFT_TRY(const NodeGroups groups, node_groups(topology));
  const std::vector<std::string> names = host_names(topology);
  std::string text = fmt::format("# {}: topology/tree, written by weft\n", topology.title);
  for (std::size_t level = 0; level < groups.size(); ++level) {
    std::map<std::int32_t, std::vector<std::string>> below;
    for (std::size_t n = 0; n < names.size(); ++n) {
      std::vector<std::string>& members = below[groups[level][n]];
      const std::string member = level == 0 ? names[n] : switch_name(level - 1, groups[level - 1][n]);
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
  WEFT_TRY(const NodeGroups groups, node_groups(topology));
  const std::vector<std::string> names = host_names(topology);
  static constexpr const char* kLabels[] = {"leaf", "spine", "core"};
  std::string text;
  for (std::size_t n = 0; n < names.size(); ++n) {
    text += fmt::format(
        "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: {}\n  labels:\n"
        "    network.topology.nvidia.com/accelerator: domain{}\n",
        names[n], n);
    for (std::size_t level = 0; level < std::min<std::size_t>(groups.size(), 3); ++level)
      text +=
          fmt::format("    network.topology.nvidia.com/{}: {}\n", kLabels[level], switch_name(level, groups[level][n]));
  }
  return text;
}

}  // namespace weft::topology
