#include "machine/render/staircase.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "machine/render/svg_canvas.h"
#include "machine/switch_height.h"

namespace weft::topology {
namespace {

using Align = SvgCanvas::Align;

constexpr double kName = 250, kWidth = 560, kBar = 34, kStep = 62, kTop = 70;  // pixels

void add(std::vector<Step>& steps, std::string name, std::string detail, BytesPerSecond rate) {
  if (rate.value() > 0) steps.push_back({std::move(name), std::move(detail), rate});
}

}  // namespace

std::vector<Step> bandwidth_steps(const Catalog& catalog, const Topology& topology) {
  std::vector<Step> steps;
  const std::vector<DeviceId> ends = topology.endpoints();
  if (ends.empty()) return steps;
  const Device& first = topology.device(ends[0]);
  if (const Part* part = catalog.find(first.model))
    if (const Figure* memory = part->figure("memory_rate"))
      add(steps, "GPU memory", fmt::format("{}, reads and writes together", first.model), rate_of(*memory));

  BytesPerSecond scale_up, pcie, host;
  std::string scale_up_kind;
  for (const LinkId id : topology.links_of(ends[0])) {
    const Link& l = topology.link(id);
    const bool to_host = topology.device(topology.other_end(id, ends[0])).kind == DeviceKind::kCpu;
    BytesPerSecond& sum = !is_scale_up(l.kind) ? pcie : to_host ? host : scale_up;
    if (l.kind == LinkKind::kPcie || is_scale_up(l.kind)) sum = sum + l.rate_ab;
    if (is_scale_up(l.kind) && !to_host) scale_up_kind = name(l.kind);
  }
  add(steps, "between GPUs", fmt::format("all {}s of one GPU", scale_up_kind), scale_up);
  add(steps, "to the CPU, chip to chip", "the coherent link of one GPU", host);
  add(steps, "PCIe", "the slot of one GPU", pcie);

  const std::vector<std::int32_t> height = switch_heights(topology);
  const double gpus = static_cast<double>(ends.size());
  std::array<BytesPerSecond, 3> up;  // NICs to leaves, leaves to spines, spines to cores
  for (const Link& l : topology.links()) {
    if (l.kind != LinkKind::kNetwork) continue;
    const std::int32_t a = height[static_cast<std::size_t>(l.a)], b = height[static_cast<std::size_t>(l.b)];
    const std::int32_t lower = std::min(a, b) + 1;
    if (lower >= 0 && lower < 3) up[static_cast<std::size_t>(lower)] = up[static_cast<std::size_t>(lower)] + l.rate_ab;
  }
  static constexpr std::pair<const char*, const char*> kLevels[] = {{"NICs", "to the leaf switches, per GPU"},
                                                                    {"leaf to spine", "per GPU when all send across"},
                                                                    {"spine to core", "per GPU when all send across"}};
  for (std::size_t i = 0; i < 3; ++i) add(steps, kLevels[i].first, kLevels[i].second, up[i] / gpus);
  return steps;
}

std::string staircase_svg(const Catalog& catalog, const Topology& topology) {
  const std::vector<Step> steps = bandwidth_steps(catalog, topology);
  SvgCanvas canvas;
  canvas.text(0, 16, topology.title, 20, Align::kLeft, 0, "bold");
  canvas.text(0, 38, "What one GPU has at every step on the way out, GB/s in each direction, logarithmic scale", 13,
              Align::kLeft);
  double low = 1, high = 10;
  for (const Step& s : steps) {
    while (s.rate.gb() < low) low /= 10;
    while (s.rate.gb() > high) high *= 10;
  }
  const auto x_of = [&](double gb) { return kName + kWidth * std::log10(gb / low) / std::log10(high / low); };
  const double bottom = kTop + static_cast<double>(steps.size()) * kStep;
  canvas.cell(kName, bottom - 2, kWidth, 1, "#777777");
  for (double tick = low; tick <= high * 1.001; tick *= 10) {
    canvas.cell(x_of(tick), bottom - 6, 1, 8, "#777777");
    canvas.text(x_of(tick), bottom + 16, fmt::format("{:g}", tick), 11, Align::kMiddle);
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const double y = kTop + static_cast<double>(i) * kStep;
    canvas.text(0, y + 14, steps[i].name, 13, Align::kLeft, kName - 10, "bold");
    canvas.text(0, y + 30, steps[i].detail, 11, Align::kLeft, kName - 10);
    const double end = x_of(steps[i].rate.gb());
    canvas.cell(kName, y, std::max(end - kName, 2.0), kBar, i == 0 ? "#2f4ba8" : "#a4b3e2");
    std::string label = rate_label(steps[i].rate) + " GB/s";
    const double ratio = i > 0 ? steps[i - 1].rate / steps[i].rate : 1;
    if (ratio > 1.005) label += fmt::format("  (1/{:.3g} of the step before)", ratio);
    canvas.text(end + 8, y + 22, label, 12, Align::kLeft);
  }
  return canvas.finish();
}

}  // namespace weft::topology
