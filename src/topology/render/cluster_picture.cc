#include "topology/render/cluster_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/text.h"

namespace weft::topology {
namespace {

using Align = SvgCanvas::Align;

// Pixels.
constexpr double kColumn = 110, kBox = 92, kHeight = 32, kRowGap = 96, kCaptionGap = 14;
constexpr std::size_t kMostShown = 8;

// A row's members: nodes by number, switches by device.
struct Row {
  std::vector<std::int32_t> members;
  double y = 0;

  std::size_t shown() const { return members.size() > kMostShown + 1 ? kMostShown : members.size(); }
  double x_of(std::int32_t member) const {
    const auto at = static_cast<double>(std::ranges::find(members, member) - members.begin());
    return at * kColumn + kBox / 2;
  }
  bool shows(std::int32_t member) const {
    return std::ranges::find(members, member) - members.begin() < static_cast<std::ptrdiff_t>(shown());
  }
};

// Links between two members, added up.
struct Bundle {
  BytesPerSecond rate;
  std::int32_t ports = 0;
};
using Bundles = std::map<std::pair<std::int32_t, std::int32_t>, Bundle>;

void draw_row(SvgCanvas& canvas, const Row& row, std::string_view caption, std::string_view word,
              std::string_view fill) {
  const std::size_t boxes = row.shown() + (row.shown() < row.members.size() ? 1 : 0);
  canvas.text(static_cast<double>(boxes) * kColumn + kCaptionGap, row.y + 21, caption, 12, Align::kLeft);
  for (std::size_t i = 0; i < row.shown(); ++i) {
    const double x = static_cast<double>(i) * kColumn;
    canvas.box(x, row.y, kBox, kHeight, fill);
    canvas.text(x + kBox / 2, row.y + 21, fmt::format("{} {}", word, i), 12, Align::kMiddle, kBox - 8);
  }
  if (row.shown() == row.members.size()) return;
  const double x = static_cast<double>(row.shown()) * kColumn;
  canvas.box(x, row.y, kBox, kHeight, "#fafafa", true);
  canvas.text(x + kBox / 2, row.y + 21, fmt::format("{} more", row.members.size() - row.shown()), 12, Align::kMiddle,
              kBox - 8);
}

void draw_bundles(SvgCanvas& canvas, const Row& upper, const Row& lower, const Bundles& bundles) {
  for (const auto& [ends, bundle] : bundles)
    if (lower.shows(ends.first) && upper.shows(ends.second))
      canvas.line(lower.x_of(ends.first), lower.y, upper.x_of(ends.second), upper.y + kHeight, LinkKind::kNetwork,
                  bundle.rate, true);
}

// "2 spines by 200 GB/s": what one member is linked to, `what` in the plural.
std::string describe(const Bundles& bundles, std::int32_t lower, std::string_view what) {
  std::size_t count = 0;
  Bundle one;
  for (const auto& [ends, bundle] : bundles)
    if (ends.first == lower) one = bundle, ++count;
  return fmt::format("{} {} by {} GB/s", count, what, rate_label(one.rate));
}

}  // namespace

double draw_cluster(SvgCanvas& canvas, const Topology& topology, double y) {
  std::set<DeviceId> leaf_set;
  for (const Link& link : topology.links())
    for (const auto& [one, other] : {std::pair(link.a, link.b), std::pair(link.b, link.a)})
      if (topology.device(one).kind == DeviceKind::kNetworkSwitch && topology.device(other).node >= 0)
        leaf_set.insert(one);
  Row spines, leaves, nodes;
  for (DeviceId id = 0; id < static_cast<DeviceId>(topology.devices().size()); ++id)
    if (topology.device(id).kind == DeviceKind::kNetworkSwitch)
      (leaf_set.contains(id) ? leaves : spines).members.push_back(id);
  for (std::int32_t n = 0; n < topology.nodes(); ++n) nodes.members.push_back(n);

  Bundles node_leaf, leaf_spine;
  for (const Link& link : topology.links()) {
    if (link.kind != LinkKind::kNetwork) continue;
    DeviceId low = link.a, high = link.b;
    if (topology.device(high).node >= 0 ||
        (leaf_set.contains(high) && !leaf_set.contains(low) && topology.device(low).node < 0))
      std::swap(low, high);
    if (topology.device(high).node >= 0) continue;  // NIC to NIC
    const std::int32_t node = topology.device(low).node;
    Bundle& bundle = node >= 0 ? node_leaf[{node, high}] : leaf_spine[{low, high}];
    bundle.rate = bundle.rate + link.rate_ab;
    bundle.ports += link.count;
  }

  const std::string model = leaves.members.empty() ? "" : topology.device(leaves.members[0]).model;
  if (!spines.members.empty()) {
    spines.y = y;
    draw_row(canvas, spines, fmt::format("{} spines", spines.members.size()), "spine",
             fill_of(DeviceKind::kNetworkSwitch));
    y += kHeight + kRowGap;
  }
  leaves.y = y;
  const std::string up = spines.members.empty() ? "" : ", each to " + describe(leaf_spine, leaves.members[0], "spines");
  const bool leaf = !spines.members.empty();
  draw_row(canvas, leaves, fmt::format("{} {} of {}{}", leaves.members.size(), leaf ? "leaves" : "switch", model, up),
           leaf ? "leaf" : "switch", fill_of(DeviceKind::kNetworkSwitch));
  nodes.y = leaves.y + kHeight + kRowGap;
  draw_row(
      canvas, nodes,
      fmt::format("{} nodes, each to {}", nodes.members.size(), describe(node_leaf, 0, leaf ? "leaves" : "switch")),
      "node", fill_of(DeviceKind::kGpu));
  if (!spines.members.empty()) draw_bundles(canvas, spines, leaves, leaf_spine);
  draw_bundles(canvas, leaves, nodes, node_leaf);
  return nodes.y + kHeight;
}

}  // namespace weft::topology
