#include "machine/render/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/embedded.h"
#include "machine/catalog/catalog.h"
#include "machine/render/cluster_picture.h"
#include "machine/render/lattice_picture.h"
#include "machine/render/node_picture.h"
#include "machine/render/svg_canvas.h"

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

constexpr double kWidestLink = 15;  // px

// Pixels for each GB/s, so that neither a link of the first node nor a GPU's memory is wider than it may be.
double scale_of(const Catalog* catalog, const Topology& topology) {
  double scale = std::numeric_limits<double>::infinity();
  const auto fit = [&](double widest, BytesPerSecond rate) {
    if (rate.value() > 0) scale = std::min(scale, widest / rate.gb());
  };
  for (const Link& link : topology.links())
    if (link.kind != LinkKind::kMemory && topology.device(link.a).node <= 0 && topology.device(link.b).node <= 0)
      fit(kWidestLink, std::max(link.rate_ab, link.rate_ba));
  if (catalog != nullptr)
    for (const Device& d : topology.devices())
      if (d.kind == DeviceKind::kGpu && d.node == 0) fit(kWidestMemory, memory_rate(*catalog, d));
  return std::isfinite(scale) ? scale : 0;
}

// A bar of a round rate, as on a map.
double draw_scale(SvgCanvas& canvas, double per_gb, double x, double y) {
  constexpr double kLeast = 30;  // px
  double rate = 1;
  for (int i = 0; rate * per_gb < kLeast && i < 18; ++i) rate *= i % 3 == 1 ? 2.5 : 2;
  canvas.cell(x, y - 6, rate * per_gb, 4, "#141a2c", "scale");
  canvas.text(x + rate * per_gb + 8, y, fmt::format("{:.4g} GB/s each way: widths of links are to scale", rate), 12,
              Align::kLeft);
  return y;
}

// One sample per kind of link, with the range of its rates.
double draw_legend(SvgCanvas& canvas, const Topology& topology, const Catalog* catalog, double per_gb, double y) {
  double x = 0;
  for (const Device& d : topology.devices())
    if (const BytesPerSecond memory = catalog != nullptr && d.kind == DeviceKind::kGpu && d.node == 0
                                          ? memory_rate(*catalog, d)
                                          : BytesPerSecond();
        memory.value() > 0) {
      canvas.cell(x, y - 7, canvas.width_of(memory), 5, "#2f4ba8", "memory");
      const std::string label = fmt::format("memory of a GPU {} GB/s, reads and writes", rate_label(memory));
      canvas.text(x + canvas.width_of(memory) + 8, y, label, 12, Align::kLeft);
      x += canvas.width_of(memory) + 8 + 6.5 * static_cast<double>(label.size()) + 20;
      break;
    }
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
  if (per_gb > 0) draw_scale(canvas, per_gb, 0, y + 24);
  canvas.text(0, y + 44, "Numbers at links are GB/s (10^9 bytes per second) in each direction.", 12, Align::kLeft);
  return y + 48;
}

}  // namespace

std::string node_svg(const Topology& topology) {
  const auto& loaded = Catalog::shipped();
  const Catalog* const catalog = loaded ? &*loaded : nullptr;
  SvgCanvas canvas(scale_of(catalog, topology));
  if (is_lattice(topology, 0))
    draw_lattice(canvas, topology, 0, 0);
  else
    draw_node(canvas, topology, 0, 0, catalog);
  return canvas.finish();
}

std::string svg(const Topology& topology) {
  const auto& loaded = Catalog::shipped();
  const Catalog* const catalog = loaded ? &*loaded : nullptr;
  const double per_gb = scale_of(catalog, topology);
  SvgCanvas canvas(per_gb);
  canvas.text(0, 16, topology.title, 20, Align::kLeft, 0, "bold");
  canvas.text(0, 36, summary(topology), 13, Align::kLeft);
  double y = 56;
  if (count(topology, DeviceKind::kNetworkSwitch) > 0) {
    y = draw_cluster(canvas, topology, y) + 48;
    const std::string node = topology.nodes() > 1 ? fmt::format("node 0 of {}", topology.nodes()) : "node 0";
    canvas.text(0, y - 12, node, 14, Align::kLeft, 0, "bold");
  }
  y = is_lattice(topology, 0) ? draw_lattice(canvas, topology, 0, y) : draw_node(canvas, topology, 0, y, catalog);
  draw_legend(canvas, topology, catalog, per_gb, y + 40);
  return canvas.finish();
}

}  // namespace weft::topology
