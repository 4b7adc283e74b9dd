#include "machine/render/matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <set>
#include <vector>

#include "base/counted.h"
#include "machine/routes.h"

namespace weft::topology {
namespace {

constexpr std::size_t kMostDevices = 16;

struct Selection {
  std::vector<DeviceId> shown;  // endpoints, then NICs
  std::size_t left_out = 0;
};

// Whole nodes as long as they fit; of a first node that does not fit, its endpoints before its NICs.
Selection select(const Topology& topology) {
  std::vector<std::vector<DeviceId>> ends(static_cast<std::size_t>(topology.nodes())), nics = ends;
  std::size_t all = 0;
  for (const DeviceId id : topology.endpoints())
    ends[static_cast<std::size_t>(topology.device(id).node)].push_back(id), ++all;
  for (DeviceId id = 0; id < static_cast<DeviceId>(topology.devices().size()); ++id)
    if (topology.device(id).kind == DeviceKind::kNic)
      nics[static_cast<std::size_t>(topology.device(id).node)].push_back(id), ++all;
  std::vector<DeviceId> first, second;
  for (std::size_t node = 0; node < ends.size(); ++node) {
    const std::size_t used = first.size() + second.size();
    if (node > 0 && used + ends[node].size() + nics[node].size() > kMostDevices) break;
    for (const DeviceId id : ends[node])
      if (first.size() < kMostDevices) first.push_back(id);
    for (const DeviceId id : nics[node])
      if (first.size() + second.size() < kMostDevices) second.push_back(id);
  }
  first.insert(first.end(), second.begin(), second.end());
  return {first, all - first.size()};
}

std::string label(const Topology& topology, DeviceId id) {
  std::string text = topology.name_of(id);
  const std::size_t own = text.find('/') == std::string::npos ? 0 : text.find('/') + 1;
  for (std::size_t i = own; i < text.size(); ++i)
    text[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[i])));
  return text;
}

std::string cell(const Topology& topology, const Path& path, DeviceId from) {
  if (path.type == PathType::kLoc) return "X";
  if (path.type != PathType::kNvl) return std::string(name(path.type));
  std::int32_t count = std::numeric_limits<std::int32_t>::max();
  bool relayed = false, xgmi = false;
  DeviceId at = from;
  for (std::size_t i = 0; i < path.hops.size(); ++i) {
    const Link& link = topology.link(path.hops[i].link);
    count = std::min(count, link.count);
    xgmi = xgmi || link.kind == LinkKind::kXgmi;
    at = topology.other_end(path.hops[i].link, at);
    relayed = relayed || (i + 1 < path.hops.size() && topology.device(at).kind == DeviceKind::kGpu);
  }
  if (relayed) return "NVB";
  return fmt::format("{}{}", xgmi ? "XG" : "NV", count);
}

std::string nearest_cpu(const Topology& topology, const Routes& routes, DeviceId from) {
  Path best;
  std::string found = "-";
  for (DeviceId id = 0; id < static_cast<DeviceId>(topology.devices().size()); ++id) {
    if (topology.device(id).kind != DeviceKind::kCpu || topology.device(id).node != topology.device(from).node)
      continue;
    Path path = routes.path(from, id);
    if (path.type > best.type || (path.type == best.type && path.hops.size() >= best.hops.size())) continue;
    best = std::move(path);
    found = fmt::format("{}", topology.device(id).index);
  }
  return found;
}

// One line per kind of cell that occurs, best first.
std::string legend(const std::set<std::string>& cells) {
  static constexpr std::pair<std::string_view, std::string_view> kMeanings[] = {
      {"X", "the device itself"},
      {"NV#", "# NVLinks, directly or through NVSwitch"},
      {"XG#", "# Infinity Fabric (XGMI) links"},
      {"NVB", "NVLink or XGMI through a neighbouring GPU"},
      {"PIX", "one PCIe switch"},
      {"PXB", "several PCIe switches, no host bridge"},
      {"PHB", "the host bridge or memory of one CPU"},
      {"SYS", "the link between two CPUs"},
      {"NET", "the network"},
      {"DIS", "not connected"},
  };
  std::string text = "\nLegend:\n";
  for (const auto& [key, meaning] : kMeanings) {
    const bool counted = key.back() == '#';
    const bool there = std::ranges::any_of(cells, [counted, key = key](const std::string& c) {
      return counted ? c.starts_with(key.substr(0, 2)) && c != "NVB" : c == key;
    });
    if (there) text += fmt::format("  {:<4} {}\n", key, meaning);
  }
  return text;
}

}  // namespace

std::string matrix_text(const Topology& topology) {
  const Selection selection = select(topology);
  const Routes routes(topology);
  std::size_t width = 4;
  for (const DeviceId id : selection.shown) width = std::max(width, label(topology, id).size());

  std::set<std::string> cells;
  std::string text = fmt::format("{:<{}}", "", width);
  for (const DeviceId id : selection.shown) text += fmt::format("  {:<{}}", label(topology, id), width);
  text += "  CPU\n";
  for (const DeviceId from : selection.shown) {
    text += fmt::format("{:<{}}", label(topology, from), width);
    for (const DeviceId to : selection.shown) {
      const std::string value = cell(topology, routes.path(from, to), from);
      cells.insert(value);
      text += fmt::format("  {:<{}}", value, width);
    }
    text += fmt::format("  {}\n", nearest_cpu(topology, routes, from));
  }
  text += legend(cells);
  if (selection.left_out > 0)
    text += fmt::format("\nLeft out: {} more GPUs, NICs or cores of {}.\n", selection.left_out,
                        counted(topology.nodes(), "node"));
  return text;
}

}  // namespace weft::topology
