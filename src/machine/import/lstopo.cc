#include "machine/import/lstopo.h"

#include <algorithm>
#include <optional>

#include "machine/import/matrix_machine.h"
#include "machine/import/text_lines.h"

namespace weft::topology {
namespace {

using Way = ClassMatrix::Way;

// An object above a device, by the number of its line.
struct Above {
  enum Kind { kMachine, kPackage, kHostBridge, kBridge } kind = kMachine;
  std::int64_t line = 0;
  std::size_t indent = 0;
};

struct PciDevice {
  std::vector<Above> above;  // from the machine down
  std::string name;          // of its operating system: "mlx5_0", "cuda0"
  bool gpu = false, verbs = false, network = false;
  std::size_t indent = 0;
  std::int64_t line = 0;
};

std::optional<Above::Kind> kind_of(std::string_view content) {
  for (const auto& [word, kind] : {std::pair("Machine", Above::kMachine), std::pair("Package", Above::kPackage),
                                   std::pair("Socket", Above::kPackage), std::pair("Group", Above::kPackage),
                                   std::pair("HostBridge", Above::kHostBridge), std::pair("PCIBridge", Above::kBridge)})
    if (content.starts_with(word)) return kind;
  return std::nullopt;
}

// The text between the first two quotes.
std::string quoted(std::string_view text) {
  const auto from = text.find('"');
  return from == std::string_view::npos ? "" : std::string(text.substr(from + 1, text.find('"', from + 1) - from - 1));
}

std::vector<PciDevice> devices_of(std::string_view text) {
  std::vector<PciDevice> devices;
  std::vector<Above> above;
  bool inside = false;  // of the last device
  for (const TextLine& line : lines_of(text)) {
    const std::string_view content = trimmed(line.text);
    if (content.empty()) continue;
    const auto indent = static_cast<std::size_t>(content.data() - line.text.data());
    while (!above.empty() && above.back().indent >= indent) above.pop_back();
    inside = inside && indent > devices.back().indent;
    if (const auto kind = kind_of(content)) {
      above.push_back({*kind, line.number, indent});
    } else if (content.starts_with("PCI ")) {
      const bool display =
          content.find("(3D)") != std::string_view::npos || content.find("ProcessingAccel") != std::string_view::npos;
      devices.push_back({.above = above, .name = {}, .gpu = display, .indent = indent, .line = line.number});
      inside = true;
    } else if (inside && (content.starts_with("CoProc") || content.starts_with("GPU("))) {
      devices.back().gpu = true;
    } else if (inside && content.starts_with("OpenFabrics")) {
      devices.back().verbs = true, devices.back().name = quoted(content);
    } else if (inside && content.starts_with("Net")) {
      devices.back().network = true;
      if (devices.back().name.empty()) devices.back().name = quoted(content);
    }
  }
  return devices;
}

Way way_between(const PciDevice& a, const PciDevice& b) {
  std::size_t common = 0;
  while (common < a.above.size() && common < b.above.size() && a.above[common].line == b.above[common].line) ++common;
  if (common == 0) return Way::kSys;
  switch (a.above[common - 1].kind) {
    case Above::kMachine:
      return Way::kSys;
    case Above::kPackage:
      return Way::kNode;
    case Above::kHostBridge:
      return Way::kPhb;
    case Above::kBridge:
      break;
  }
  constexpr std::size_t kOneSwitch = 1;  // port of a switch below the common one
  return a.above.size() - common <= kOneSwitch && b.above.size() - common <= kOneSwitch ? Way::kPix : Way::kPxb;
}

}  // namespace

bool is_lstopo(std::string_view text) {
  const std::string_view start = trimmed(text.substr(0, 4096));
  return start.starts_with("Machine (") &&
         (text.find("HostBridge") != std::string_view::npos || text.find("PCI ") != std::string_view::npos);
}

Result<Topology> parse_lstopo(const Catalog& catalog, std::string_view name, std::string_view text) {
  std::vector<PciDevice> devices = devices_of(text);
  const bool verbs = std::ranges::any_of(devices, &PciDevice::verbs);
  std::erase_if(devices, [&](const PciDevice& d) { return !d.gpu && !(verbs ? d.verbs : d.network); });
  if (std::ranges::none_of(devices, &PciDevice::gpu))
    return bad_input("{}:1: lstopo lists no GPU: no PCI device is (3D) or has a CoProc", name);
  constexpr std::size_t kMost = 1024;
  if (devices.size() > kMost) return bad_input("{}:1: more than {} devices", name, kMost);
  std::ranges::stable_partition(devices, &PciDevice::gpu);
  std::vector<std::int64_t> packages;
  ClassMatrix matrix;
  for (const PciDevice& d : devices) {
    ClassMatrix::Entry entry;
    entry.kind = d.gpu ? DeviceKind::kGpu : DeviceKind::kNic;
    entry.line = d.line;
    if (!d.gpu) entry.model = d.name;
    for (const Above& one : d.above)
      if (one.kind == Above::kPackage) {
        const auto at = std::ranges::find(packages, one.line);
        entry.numa = static_cast<std::int32_t>(at - packages.begin());
        if (at == packages.end()) packages.push_back(one.line);
        break;
      }
    if (d.gpu) entry.facts.set("assumed", "lstopo lists no NVLink: this machine has none; nvidia-smi topo -m shows it");
    matrix.entries.push_back(std::move(entry));
  }
  matrix.resize();
  for (std::size_t i = 0; i < devices.size(); ++i)
    for (std::size_t j = 0; j < devices.size(); ++j)
      if (i != j) matrix.cells[i][j] = {way_between(devices[i], devices[j]), 1};
  return machine_of(catalog, name, matrix);
}

}  // namespace weft::topology
