#include "machine/render/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/counted.h"
#include "machine/render/svg_canvas.h"
#include "machine/routes.h"

namespace weft::topology {
namespace {

using Align = SvgCanvas::Align;

constexpr double kCell = 46, kLabel = 92, kTop = 84;  // pixels
constexpr std::size_t kMostDevices = 32;
constexpr int kShades = 9;
// Shades from pale to dark; dark text up to the fifth, white after.
constexpr const char* kColours[kShades] = {"#f7fbff", "#deebf7", "#c6dbef", "#9ecae1", "#6baed6",
                                           "#4292c6", "#2171b5", "#08519c", "#08306b"};

std::vector<DeviceId> choose(const Topology& topology) {
  std::vector<DeviceId> chosen = topology.endpoints();
  for (DeviceId id = 0; id < static_cast<DeviceId>(topology.devices().size()); ++id)
    if (topology.device(id).kind == DeviceKind::kNic) chosen.push_back(id);
  std::ranges::stable_sort(chosen, {}, [&](DeviceId id) { return topology.device(id).node; });
  return chosen;
}

// The first kMostDevices of `all`; where one node fills the table, as many GPUs as NICs of each of the first two nodes,
// so that the network between them is in the picture.
std::vector<DeviceId> sample(const Topology& topology, std::vector<DeviceId> all) {
  const auto of_node = [&](DeviceId id) { return topology.device(id).node; };
  const auto first = std::ranges::count(all, of_node(all.front()), of_node);
  if (topology.nodes() < 2 || first <= static_cast<std::ptrdiff_t>(kMostDevices / 2)) {
    if (all.size() > kMostDevices) all.resize(kMostDevices);
    return all;
  }
  std::vector<DeviceId> chosen;
  for (std::int32_t node = of_node(all.front()); node < of_node(all.front()) + 2; ++node) {
    std::size_t nics = 0, others = 0;
    for (const DeviceId id : all)
      if (of_node(id) == node && (topology.device(id).kind == DeviceKind::kNic ? nics : others)++ < kMostDevices / 4)
        chosen.push_back(id);
  }
  return chosen;
}

// The name of a column in two lines: "node0" above "gpu3".
void column_label(SvgCanvas& canvas, double x, std::string_view label) {
  const std::size_t slash = label.find('/');
  if (slash != label.npos) canvas.text(x, kTop - 20, label.substr(0, slash), 12, SvgCanvas::Align::kMiddle, kCell - 4);
  canvas.text(x, kTop - 8, slash == label.npos ? label : label.substr(slash + 1), 12, SvgCanvas::Align::kMiddle,
              kCell - 4);
}

}  // namespace

std::string heat_map_svg(const Topology& topology) {
  std::vector<DeviceId> devices = choose(topology);
  const std::size_t all = devices.size();
  if (all > 0) devices = sample(topology, std::move(devices));
  const Routes routes(topology);
  std::vector<std::vector<Path>> paths;
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const DeviceId a : devices) {
    paths.emplace_back();
    for (const DeviceId b : devices) {
      paths.back().push_back(routes.path(a, b));
      if (a == b || paths.back().back().hops.empty()) continue;
      low = std::min(low, paths.back().back().rate.gb());
      high = std::max(high, paths.back().back().rate.gb());
    }
  }
  const auto shade = [&](double gb) {
    if (!(high > low)) return kShades / 2;
    return std::clamp(static_cast<int>(std::log(gb / low) / std::log(high / low) * (kShades - 1) + 0.5), 0,
                      kShades - 1);
  };

  SvgCanvas canvas;
  canvas.text(0, 16, topology.title, 20, Align::kLeft, 0, "bold");
  canvas.text(0, 38, "Rate of the best path in GB/s (10^9 bytes per second, each direction) and its class", 13,
              Align::kLeft);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::string label = topology.name_of(devices[i]);
    const double at = static_cast<double>(i) * kCell;
    canvas.text(kLabel - 6, kTop + at + kCell / 2 + 4, label, 12, Align::kRight, kLabel - 8);
    column_label(canvas, kLabel + at + kCell / 2, label);
    for (std::size_t j = 0; j < devices.size(); ++j) {
      const double x = kLabel + static_cast<double>(j) * kCell, y = kTop + at;
      const Path& path = paths[i][j];
      if (i == j || path.hops.empty()) {
        canvas.cell(x, y, kCell, kCell, "#eeeeee");
        continue;
      }
      const int s = shade(path.rate.gb());
      const std::string_view ink = s >= 5 ? "#ffffff" : "#111111";
      canvas.cell(x, y, kCell, kCell, kColours[s]);
      canvas.text(x + kCell / 2, y + 20, rate_label(path.rate), 12, Align::kMiddle, kCell - 6, "normal", ink);
      canvas.text(x + kCell / 2, y + 36, name(path.type), 10, Align::kMiddle, kCell - 6, "normal", ink);
    }
  }
  const double below = kTop + static_cast<double>(devices.size()) * kCell + 28;
  if (high > 0)
    for (int s = high > low ? 0 : kShades / 2; s <= (high > low ? kShades - 1 : kShades / 2); ++s) {
      const double x = kLabel + s * 58.0;
      const double gb = high > low ? low * std::pow(high / low, s / static_cast<double>(kShades - 1)) : high;
      canvas.cell(x, below, 58, 16, kColours[s]);
      canvas.text(x + 29, below + 30, rate_label(BytesPerSecond::gigabytes(gb)), 11, Align::kMiddle, 52);
    }
  if (high > low) canvas.text(kLabel + kShades * 58.0 + 8, below + 13, "logarithmic", 11, Align::kLeft);
  if (all > devices.size())
    canvas.text(
        0, below + 54,
        fmt::format("Left out: {} more devices of {}.", all - devices.size(), counted(topology.nodes(), "node")), 12,
        Align::kLeft);
  return canvas.finish();
}

}  // namespace weft::topology
