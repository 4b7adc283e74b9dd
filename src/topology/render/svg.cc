#include "topology/render/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "topology/render/cluster_picture.h"
#include "topology/render/lattice_picture.h"
#include "topology/render/node_picture.h"
#include "topology/render/svg_canvas.h"

namespace weft::topology {
namespace {

using Align = SvgCanvas::Align;

std::int64_t count(const Topology& topology, DeviceKind kind) {
  return std::ranges::count(topology.devices(), kind, &Device::kind);
}

std::string summary(const Topology& topology) {
  std::string text;
  for (const auto& [kind, word] :
       {std::pair(DeviceKind::kGpu, "GPU"), std::pair(DeviceKind::kCore, "core"), std::pair(DeviceKind::kCpu, "CPU"),
        std::pair(DeviceKind::kNic, "NIC"), std::pair(DeviceKind::kNetworkSwitch, "network switch")}) {
    const std::int64_t n = count(topology, kind);
    if (n > 0)
      text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", n, word,
                          n == 1                               ? ""
                          : kind == DeviceKind::kNetworkSwitch ? "es"
                                                               : "s");
  }
  return text;
}

// One sample per kind of link, with the range of its rates.
double draw_legend(SvgCanvas& canvas, const Topology& topology, double y) {
  double x = 0;
  for (const LinkKind kind : {LinkKind::kNvlink, LinkKind::kXgmi, LinkKind::kChipLink, LinkKind::kPcie,
                              LinkKind::kInterSocket, LinkKind::kMemory, LinkKind::kNetwork}) {
    BytesPerSecond low(std::numeric_limits<double>::infinity()), high;
    for (const Link& link : topology.links()) {
      // Memory is written into the CPU's box; only the links of cores are drawn.
      if (link.kind != kind || topology.device(link.a).kind == DeviceKind::kMemory ||
          topology.device(link.b).kind == DeviceKind::kMemory)
        continue;
      low = std::min(low, link.rate_ab);
      high = std::max(high, link.rate_ab);
    }
    if (high.value() <= 0) continue;
    const std::string rates =
        rate_label(low) == rate_label(high) ? rate_label(low) : rate_label(low) + " to " + rate_label(high);
    const std::string label =
        fmt::format("{} {} GB/s", kind == LinkKind::kMemory ? "core to cache" : name(kind), rates);
    canvas.line(x, y - 4, x + 28, y - 4, kind, high);
    canvas.text(x + 36, y, label, 12, Align::kLeft);
    x += 36 + 7.5 * static_cast<double>(label.size()) + 20;
  }
  canvas.text(0, y + 20, "Numbers at links are GB/s (10^9 bytes per second) in each direction.", 11, Align::kLeft);
  return y + 24;
}

}  // namespace

std::string svg(const Topology& topology) {
  SvgCanvas canvas;
  canvas.text(0, 16, topology.title, 20, Align::kLeft, 0, "bold");
  canvas.text(0, 36, summary(topology), 13, Align::kLeft);
  double y = 56;
  if (count(topology, DeviceKind::kNetworkSwitch) > 0) {
    y = draw_cluster(canvas, topology, y) + 48;
    canvas.text(0, y - 12, "node 0", 14, Align::kLeft, 0, "bold");
  }
  y = is_lattice(topology, 0) ? draw_lattice(canvas, topology, 0, y) : draw_node(canvas, topology, 0, y);
  draw_legend(canvas, topology, y + 40);
  return canvas.finish();
}

}  // namespace weft::topology
