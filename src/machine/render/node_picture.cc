#include "machine/render/node_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/counted.h"

namespace weft::topology {
namespace {

using enum DeviceKind;
using Align = SvgCanvas::Align;

// Pixels.
constexpr double kColumn = 80, kBox = 68, kCpuLeast = 190, kCpuGap = 64;
constexpr double kCpuHeight = 46, kSwitchHeight = 24, kLeafHeight = 50, kNvSwitchHeight = 28, kDrop = 40;
constexpr double kPageWidth = 24 * kColumn;
constexpr std::size_t kMostCores = 8;  // of one CPU

// A device of the PCIe tree with what hangs at it, or (device < 0) a box for what is folded away.
struct Branch {
  DeviceId device = -1;
  LinkId up = -1;  // link to the parent
  std::string folded;
  std::vector<Branch> below;
  double x = 0, width = 0;  // filled in by place()
};

std::string model_text(const Device& d) { return d.model.empty() ? d.bus_id : d.model; }

class Picture {
 public:
  Picture(SvgCanvas& canvas, const Topology& topology, std::int32_t node, const Catalog* catalog)
      : canvas_(canvas), topology_(topology), node_(node), catalog_(catalog) {}

  double draw(double top) {
    build();
    double x = 0;
    for (Branch& cpu : cpus_) {
      place(cpu, x, kCpuLeast);
      x += cpu.width + kCpuGap;
    }
    leaf_y_ = top + kCpuHeight + levels_ * (kDrop + kSwitchHeight) + kDrop;
    bottom_ = leaf_y_ + kLeafHeight;
    if (has_socket_arcs()) leaf_y_ += kDrop, bottom_ += kDrop, top += kDrop;
    for (const Branch& cpu : cpus_) draw_cpu(cpu, top);
    draw_sockets(top);
    draw_gpu_links();
    return bottom_;
  }

 private:
  // The links of this picture are drawn by these, so that each carries its ends' names.
  void line(const Link& link, double x1, double y1, double x2, double y2) {
    canvas_.about(topology_.name_of(link.a), topology_.name_of(link.b));
    canvas_.line(x1, y1, x2, y2, link.kind, link.rate_ab);
    canvas_.about();
  }
  void arc(const Link& link, double x1, double x2, double y, double depth) {
    canvas_.about(topology_.name_of(link.a), topology_.name_of(link.b));
    canvas_.arc(x1, x2, y, depth, link.kind, link.rate_ab);
    canvas_.about();
  }
  void box(DeviceId device, double x, double y, double width, double height) {
    canvas_.about(topology_.name_of(device));
    canvas_.box(x, y, width, height, topology_.device(device).kind);
    canvas_.about();
  }

  bool here(DeviceId id) const { return topology_.device(id).node == node_; }

  void build() {
    for (DeviceId id = 0; id < static_cast<DeviceId>(topology_.devices().size()); ++id)
      if (here(id) && topology_.device(id).kind == kCpu) {
        seen_[id] = true;
        cpus_.push_back({.device = id, .up = -1, .folded = {}, .below = {}});
      }
    for (Branch& cpu : cpus_) grow(cpu, 0);
    Branch orphans;  // devices that hang at no CPU
    for (DeviceId id = 0; id < static_cast<DeviceId>(topology_.devices().size()); ++id)
      if (here(id) && !seen_[id] && (topology_.device(id).kind == kGpu || topology_.device(id).kind == kNic))
        orphans.below.push_back({.device = id, .up = -1, .folded = {}, .below = {}});
    if (!orphans.below.empty()) cpus_.push_back(std::move(orphans));
    fold_cpus();
  }

  // Adds what hangs below a CPU or PCIe switch. PCIe before NVLink-C2C, so that a GPU with both hangs at PCIe.
  void grow(Branch& branch, int level) {
    for (const bool nvlink : {false, true}) {
      for (const LinkId l : topology_.links_of(branch.device)) {
        const Link& link = topology_.link(l);
        const DeviceId to = topology_.other_end(l, branch.device);
        const DeviceKind kind = topology_.device(to).kind;
        const bool leaf = kind == kGpu || kind == kNic || kind == kCore;
        const bool is_nvlink = is_scale_up(link.kind);
        if (seen_[to] || !here(to) || (!leaf && kind != kPcieSwitch) || is_nvlink != nvlink) continue;
        seen_[to] = true;
        Branch child{.device = to, .up = l, .folded = {}, .below = {}};
        if (kind == kPcieSwitch) {
          levels_ = std::max(levels_, level + 1);
          grow(child, level + 1);
        }
        branch.below.push_back(std::move(child));
      }
    }
    const auto cores = static_cast<std::size_t>(
        std::ranges::count_if(branch.below, [&](const Branch& b) { return topology_.device(b.device).kind == kCore; }));
    if (cores <= kMostCores) return;
    std::erase_if(branch.below, [&, kept = std::size_t{0}](const Branch& b) mutable {
      return topology_.device(b.device).kind == kCore && ++kept >= kMostCores;
    });
    branch.below.push_back(
        {.device = -1, .up = -1, .folded = fmt::format("{} more cores", cores - kMostCores + 1), .below = {}});
  }

  static double least_width(const Branch& b) {
    double width = 0;
    for (const Branch& child : b.below) width += least_width(child);
    return std::max(width, kColumn);
  }

  std::int64_t count_gpus(const Branch& b) const {
    std::int64_t count = b.device >= 0 && topology_.device(b.device).kind == kGpu;
    for (const Branch& child : b.below) count += count_gpus(child);
    return count;
  }

  // CPUs beyond the page become one box.
  void fold_cpus() {
    double width = 0;
    std::size_t kept = 0;
    while (kept < cpus_.size()) {
      width += std::max(least_width(cpus_[kept]), kCpuLeast) + kCpuGap;
      if (kept > 0 && width > kPageWidth) break;
      ++kept;
    }
    if (kept + 1 >= cpus_.size()) return;
    const std::size_t more = cpus_.size() - kept;
    std::int64_t gpus = 0;
    for (std::size_t i = kept; i < cpus_.size(); ++i) gpus += count_gpus(cpus_[i]);
    cpus_.resize(kept);
    cpus_.push_back(
        {.device = -1, .up = -1, .folded = fmt::format("{} more CPUs, {}", more, counted(gpus, "GPU")), .below = {}});
  }

  void place(Branch& b, double x, double least) {
    b.x = x;
    b.width = std::max(least_width(b), least);
    const double spare = (b.width - (b.below.empty() ? 0 : sum_below(b))) / 2;
    double at = x + (b.below.empty() ? 0 : spare);
    for (Branch& child : b.below) {
      place(child, at, kColumn);
      at += child.width;
    }
  }

  static double sum_below(const Branch& b) {
    double width = 0;
    for (const Branch& child : b.below) width += least_width(child);
    return width;
  }

  void draw_cpu(const Branch& cpu, double y) {
    if (cpu.device >= 0) {
      box(cpu.device, cpu.x, y, cpu.width, kCpuHeight);
      std::string memory;
      for (const LinkId l : topology_.links_of(cpu.device))
        if (topology_.device(topology_.other_end(l, cpu.device)).kind == kMemory)
          memory = fmt::format("memory {} GB/s", rate_label(topology_.link(l).rate_ab));
      const double middle = cpu.x + cpu.width / 2, room = cpu.width - 12;
      canvas_.text(middle, y + (memory.empty() ? 28 : 19),
                   fmt::format("cpu{} {}", topology_.device(cpu.device).index, topology_.device(cpu.device).model), 13,
                   Align::kMiddle, room, "bold");
      canvas_.text(middle, y + 36, memory, 11, Align::kMiddle, room);
    } else if (!cpu.folded.empty()) {
      canvas_.folded(cpu.x, y, cpu.width, leaf_y_ + kLeafHeight - y);
      canvas_.text(cpu.x + cpu.width / 2, (y + leaf_y_ + kLeafHeight) / 2, cpu.folded, 12, Align::kMiddle,
                   cpu.width - 12);
      return;
    }
    for (const Branch& child : cpu.below) draw_below(child, y + kCpuHeight);
  }

  // `from_y` is the lower edge of the parent's bar, which spans this branch.
  void draw_below(const Branch& b, double from_y) {
    const double middle = b.x + b.width / 2;
    const bool bar = b.device >= 0 && topology_.device(b.device).kind == kPcieSwitch;
    const double y = bar ? from_y + kDrop : leaf_y_;
    if (b.up >= 0) {
      const Link& link = topology_.link(b.up);
      line(link, middle, from_y, middle, y);
      canvas_.text(middle + 7, from_y + kDrop / 2 + 4, rate_label(link.rate_ab), 10, Align::kLeft);
    }
    if (bar) {
      const double inset = (kColumn - kBox) / 2;
      box(b.device, b.x + inset, y, b.width - 2 * inset, kSwitchHeight);
      canvas_.text(middle, y + 16, b.width > kColumn ? "PCIe switch" : "PCIe sw", 11, Align::kMiddle,
                   b.width - 2 * inset - 6);
      for (const Branch& child : b.below) draw_below(child, y + kSwitchHeight);
    } else {
      draw_leaf(b, middle);
    }
  }

  void draw_leaf(const Branch& b, double middle) {
    const double x = middle - kBox / 2, room = kBox - 6;
    if (b.device < 0) {
      canvas_.folded(x, leaf_y_, kBox, kLeafHeight);
      canvas_.text(middle, leaf_y_ + kLeafHeight / 2 + 4, b.folded, 11, Align::kMiddle, room);
      return;
    }
    const Device& d = topology_.device(b.device);
    box(b.device, x, leaf_y_, kBox, kLeafHeight);
    canvas_.text(middle, leaf_y_ + (model_text(d).empty() ? 30 : 21), fmt::format("{}{}", name(d.kind), d.index), 13,
                 Align::kMiddle, room, "bold");
    canvas_.text(middle, leaf_y_ + 38, model_text(d), 10, Align::kMiddle, room);
    if (const BytesPerSecond memory = catalog_ != nullptr ? memory_rate(*catalog_, d) : BytesPerSecond();
        d.kind == kGpu && memory.value() > 0) {
      const double width = std::min(kWidestMemory, canvas_.width_of(memory));
      canvas_.cell(middle - width / 2, leaf_y_ + kLeafHeight - 8, width, 5, "#2f4ba8", "memory");
    }
    if (d.kind == kGpu) gpu_x_[b.device] = middle;
    if (d.kind == kNic) nic_x_[b.device] = middle;
  }

  bool has_socket_arcs() const {
    for (std::size_t i = 0; i < cpus_.size(); ++i)
      for (std::size_t j = i + 2; j < cpus_.size(); ++j)
        for (const LinkId l : cpus_[i].device < 0 ? std::span<const LinkId>() : topology_.links_of(cpus_[i].device))
          if (topology_.other_end(l, cpus_[i].device) == cpus_[j].device) return true;
    return false;
  }

  void draw_sockets(double top) {
    for (std::size_t i = 0; i < cpus_.size(); ++i) {
      for (std::size_t j = i + 1; j < cpus_.size(); ++j) {
        if (cpus_[i].device < 0 || cpus_[j].device < 0) continue;
        for (const LinkId l : topology_.links_of(cpus_[i].device)) {
          if (topology_.other_end(l, cpus_[i].device) != cpus_[j].device) continue;
          const Link& link = topology_.link(l);
          if (j == i + 1) {
            const double x1 = cpus_[i].x + cpus_[i].width, x2 = cpus_[j].x, y = top + kCpuHeight / 2;
            line(link, x1, y, x2, y);
            canvas_.text((x1 + x2) / 2, y - 9, rate_label(link.rate_ab), 10, Align::kMiddle);
          } else {
            arc(link, cpus_[i].x + cpus_[i].width * 0.6, cpus_[j].x + cpus_[j].width * 0.4, top, -kDrop * 0.8);
          }
        }
      }
    }
  }

  // "NVSwitch: 72 GPUs, 18 links each", and what else it is joined to.
  std::string switch_text(DeviceId device, const Link& port) const {
    std::int64_t gpus = 0;
    std::string others;
    for (const LinkId l : topology_.links_of(device)) {
      const DeviceId to = topology_.other_end(l, device);
      if (topology_.device(to).kind == kGpu)
        ++gpus;
      else
        others += fmt::format(", {} to {}{}", topology_.link(l).count, name(topology_.device(to).kind),
                              topology_.device(to).index);
    }
    return fmt::format("{}: {}, {} each{}", port.kind == LinkKind::kNvlink ? "NVSwitch" : "switch",
                       counted(gpus, "GPU"), counted(port.count, "link"), others);
  }

  void draw_gpu_links() {
    const double from_y = leaf_y_ + kLeafHeight;
    double deepest = 0;
    std::map<DeviceId, std::vector<std::pair<double, Link>>> switches;
    for (const auto& [gpu, x] : gpu_x_) {
      for (const LinkId l : topology_.links_of(gpu)) {
        const Link& link = topology_.link(l);
        const DeviceId to = topology_.other_end(l, gpu);
        if (topology_.device(to).kind == kNvSwitch) switches[to].emplace_back(x, link);
        if (const auto nic = nic_x_.find(to); nic != nic_x_.end()) {  // a NIC that hangs at the GPU itself
          const double depth = 16 + std::abs(nic->second - x) * 0.11;
          arc(link, x, nic->second, from_y, depth);
          deepest = std::max(deepest, depth);
        }
        if (to < gpu || !gpu_x_.contains(to)) continue;
        // Deeper the further apart, so that arcs do not hide each other.
        const double depth = 16 + std::abs(gpu_x_.at(to) - x) * 0.11;
        arc(link, x, gpu_x_.at(to), from_y, depth);
        deepest = std::max(deepest, depth);
      }
    }
    bottom_ = from_y + deepest + (deepest > 0 ? 8 : 0);
    for (const auto& [device, ports] : switches) {
      const double y = bottom_ + kDrop;
      double left = ports.front().first, right = left;
      for (const auto& [x, link] : ports) {
        line(link, x, from_y, x, y);
        canvas_.text(x + 8, from_y + kDrop / 2 + 4, rate_label(link.rate_ab), 10, Align::kLeft);
        left = std::min(left, x);
        right = std::max(right, x);
      }
      left -= kBox / 2;
      right = std::max(right + kBox / 2, left + kCpuLeast);
      box(device, left, y, right - left, kNvSwitchHeight);
      canvas_.text((left + right) / 2, y + 19, switch_text(device, ports.front().second), 13, Align::kMiddle,
                   right - left - 12, "bold");
      bottom_ = y + kNvSwitchHeight;
    }
  }

  SvgCanvas& canvas_;
  const Topology& topology_;
  std::int32_t node_;
  const Catalog* catalog_;
  std::vector<Branch> cpus_;
  std::map<DeviceId, bool> seen_;
  std::map<DeviceId, double> gpu_x_, nic_x_;
  int levels_ = 0;  // of PCIe switches
  double leaf_y_ = 0, bottom_ = 0;
};

}  // namespace

double draw_node(SvgCanvas& canvas, const Topology& topology, std::int32_t node, double y, const Catalog* catalog) {
  return Picture(canvas, topology, node, catalog).draw(y);
}

BytesPerSecond memory_rate(const Catalog& catalog, const Device& device) {
  const Part* part = device.model.empty() ? nullptr : catalog.find(device.model);
  const Figure* rate = part == nullptr ? nullptr : part->figure("memory_rate");
  return rate == nullptr ? BytesPerSecond() : rate_of(*rate);
}

}  // namespace weft::topology
