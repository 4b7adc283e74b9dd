#include "apps/doctor/machine_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/counted.h"
#include "machine/catalog/catalog.h"
#include "machine/findings.h"
#include "machine/import/machine_file.h"
#include "machine/import/text_lines.h"
#include "machine/peer_access.h"
#include "machine/routes.h"

namespace weft::doctor {
namespace {

using namespace topology;

constexpr std::size_t kMostNamed = 8;

std::string names(const Topology& machine, std::vector<DeviceId> devices) {
  std::vector<std::string> all;
  for (const DeviceId id : devices)
    if (all.size() < kMostNamed) all.push_back(machine.name_of(id));
  return fmt::format("{}{}", fmt::join(all, ", "), devices.size() > kMostNamed ? ", …" : "");
}

std::string_view class_of(PathType type) {
  switch (type) {
    case PathType::kNvl:
      return "NVLink";
    case PathType::kPix:
      return "one PCIe switch";
    case PathType::kPxb:
      return "several PCIe switches";
    case PathType::kPhb:
      return "a host bridge";
    case PathType::kSys:
      return "the link between sockets";
    default:
      return "no path";
  }
}

bool says_no_nvlink(std::string_view finding) { return finding.find("leaves NVLink out") != std::string_view::npos; }

class Judge {
 public:
  explicit Judge(const Topology& machine) : m_(machine), routes_(machine) {}

  std::vector<MachineFact> run() {
    nvlinks();
    nics();
    widths();
    settings();
    sockets();
    return std::move(found_);
  }

 private:
  void add(const char* rule, std::string text) { found_.push_back({rule, "weft: topology: " + std::move(text)}); }

  std::vector<DeviceId> of_node(DeviceKind kind, std::int32_t node) const {
    std::vector<DeviceId> all;
    for (const DeviceId id : m_.devices_of(kind))
      if (m_.device(id).node == node) all.push_back(id);
    return all;
  }

  int nvlinks_of(DeviceId gpu) const {
    int count = 0;
    for (const LinkId l : m_.links_of(gpu))
      if (is_scale_up(m_.link(l).kind) && m_.device(m_.other_end(l, gpu)).kind != DeviceKind::kCpu)
        count += m_.link(l).count;
    return count;
  }

  // A GPU with fewer NVLinks than most of its node.
  void nvlinks() {
    for (std::int32_t node = 0; node < m_.nodes(); ++node) {
      std::map<int, std::vector<DeviceId>> by_count;
      const auto gpus = of_node(DeviceKind::kGpu, node);
      for (const DeviceId gpu : gpus) by_count[nvlinks_of(gpu)].push_back(gpu);
      if (by_count.size() < 2) continue;
      const auto most = std::ranges::max_element(by_count, {}, [](const auto& e) { return e.second.size(); });
      for (const auto& [count, of] : by_count)
        if (count < most->first && 2 * most->second.size() > gpus.size())
          add(count == 0 ? "T01" : "T02",
              count == 0
                  ? fmt::format("{} without NVLink, the others of the node have {} each", names(m_, of), most->first)
                  : fmt::format("{} with {} NVLinks, the others of the node have {} each", names(m_, of), count,
                                most->first));
    }
    for (const std::string& sentence : findings(m_)) {
      if (sentence.starts_with("no NVLink is listed")) add("T01", sentence);
      leaves_nvlink_out_ = leaves_nvlink_out_ || says_no_nvlink(sentence);
    }
  }

  // The nearest NIC of each GPU, where other GPUs of the node have a nearer one.
  void nics() {
    for (std::int32_t node = 0; node < m_.nodes(); ++node) {
      const auto gpus = of_node(DeviceKind::kGpu, node), nics = of_node(DeviceKind::kNic, node);
      if (gpus.size() < 2 || nics.empty()) continue;
      std::map<PathType, std::vector<DeviceId>> by_class;
      for (const DeviceId gpu : gpus) {
        PathType nearest = PathType::kDis;
        for (const DeviceId nic : nics) nearest = std::min(nearest, routes_.wire_path(gpu, nic).type);
        by_class[nearest].push_back(gpu);
      }
      const PathType best = by_class.begin()->first;
      for (const auto& [type, of] : by_class)
        if (type > best && type >= PathType::kPhb)
          add("T03", fmt::format("{} reach no NIC but over {}; {} reach theirs over {}", names(m_, of), class_of(type),
                                 names(m_, by_class.begin()->second), class_of(best)));
    }
  }

  // PCIe links of one model's devices that carry less than those of its siblings.
  void widths() {
    for (const DeviceKind kind : {DeviceKind::kGpu, DeviceKind::kNic}) {
      std::map<std::string, std::map<double, std::vector<DeviceId>>> rates;  // by model; GB/s
      for (const DeviceId id : m_.devices_of(kind))
        for (const LinkId l : m_.links_of(id))
          if (m_.link(l).kind == LinkKind::kPcie) rates[model_of(id)][m_.link(l).rate_ab.value() * 1e-9].push_back(id);
      constexpr double kNearlyAll = 0.8;
      for (const auto& [model, by_rate] : rates) {
        const double most = by_rate.rbegin()->first;
        for (const auto& [rate, of] : by_rate)
          if (rate < kNearlyAll * most)
            add("T04",
                fmt::format(
                    "the PCIe link of {} carries {:.3g} GB/s, of others of its kind {:.3g}: half the width or speed",
                    names(m_, of), rate, most));
      }
    }
  }

  // NICs without a catalogue's model are named after themselves: mlx5_0 and mlx5_1 are of one kind.
  std::string model_of(DeviceId id) const {
    std::string model = m_.device(id).model;
    while (!model.empty() && (std::isdigit(static_cast<unsigned char>(model.back())) != 0)) model.pop_back();
    return model;
  }

  void settings() {
    std::vector<DeviceId> acs, iommu, without;
    for (const DeviceId cpu : m_.devices_of(DeviceKind::kCpu)) {
      if (m_.device(cpu).facts.get("acs") == "on") acs.push_back(cpu);
      if (m_.device(cpu).facts.get("iommu") == "on") iommu.push_back(cpu);
    }
    for (const DeviceId nic : m_.devices_of(DeviceKind::kNic))
      if (m_.device(nic).facts.get("gdr") == "0") without.push_back(nic);
    const bool peermem = std::ranges::any_of(
        m_.devices_of(DeviceKind::kCpu), [&](DeviceId cpu) { return m_.device(cpu).facts.get("peermem") == "off"; });
    if (!acs.empty())
      add("T05", fmt::format("ACS is on below {}: peer traffic of PCIe goes through the CPU", names(m_, acs)));
    if (!iommu.empty()) add("T06", fmt::format("the IOMMU of {} translates every DMA", names(m_, iommu)));
    if (m_.devices_of(DeviceKind::kGpu).empty()) return;
    if (!without.empty())
      add("T07", fmt::format("gdr=0 at {}: no GPUDirect RDMA, data bounces through host memory", names(m_, without)));
    if (peermem && !m_.devices_of(DeviceKind::kNic).empty())
      add("T07", "peermem=off: no GPUDirect RDMA, data bounces through host memory");
  }

  // GPUs that only the link between sockets joins.
  void sockets() {
    const auto gpus = of_node(DeviceKind::kGpu, 0);
    std::size_t far = 0;
    for (std::size_t i = 0; i < gpus.size(); ++i)
      for (std::size_t j = i + 1; j < gpus.size(); ++j)
        far += routes_.wire_path(gpus[i], gpus[j]).type == PathType::kSys ? 1 : 0;
    const std::size_t pairs = gpus.size() * (gpus.size() - 1) / 2;
    if (far > 0 && !leaves_nvlink_out_)
      add("T08", fmt::format("{} of {} pairs of GPUs have neither NVLink nor one CPU's PCIe between them: their data "
                             "crosses the sockets",
                             far, pairs));
  }

  const Topology& m_;
  Routes routes_;
  bool leaves_nvlink_out_ = false;  // the table says nothing of NVLinks: nvidia-smi topo -mp
  std::vector<MachineFact> found_;
};

// nvidia-smi topo -p2p: who may reach whose memory.
std::vector<MachineFact> of_peers(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kWhy[] = {
      {"CNS", "the chipset does not support it"},
      {"GNS", "the GPU does not support it"},
      {"TNS", "the topology does not support it"},
      {"DR", "the driver's registry switches it off"},
      {"NS", "it is not supported"},
      {"U", "for an unknown reason"}};
  std::map<std::string_view, std::vector<std::string>> pairs;
  std::map<std::string_view, int> lines;
  std::size_t columns = 0;
  for (const TextLine& line : lines_of(text)) {
    const auto words = words_of(line.text);
    if (columns == 0) {
      if (words.size() >= 2 && words[0] == "GPU0" && words[1] == "GPU1") columns = words.size();
      continue;
    }
    if (words.size() != columns + 1 || !words[0].starts_with("GPU")) continue;
    for (std::size_t c = 0; c < columns; ++c)
      for (const auto& [word, why] : kWhy)
        if (words[c + 1] == word && words[0] < fmt::format("GPU{}", c)) {
          pairs[why].push_back(fmt::format("{}-GPU{}", words[0], c));
          lines.try_emplace(why, static_cast<int>(line.number));
        }
  }
  std::vector<MachineFact> found;
  for (auto& [why, of] : pairs) {
    const std::size_t all = of.size();
    of.resize(std::min(all, kMostNamed));
    found.push_back({"T09",
                     fmt::format("weft: topology: {} of GPUs without peer access, {}: {}{}", counted(all, "pair"), why,
                                 fmt::join(of, ", "), all > kMostNamed ? ", …" : ""),
                     lines[why]});
  }
  return found;
}

bool looks_like_machine(std::string_view text) {
  const std::string_view start = trimmed(text.substr(0, 4096));
  const auto has = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
  if (start.starts_with('<')) return has("<system") || has("<topology") || has("<object");
  if (start.starts_with('{')) return has("\"weft.");
  if (start.starts_with("Machine (")) return true;
  return (has("GPU0") && (has("GPU1") || has("NIC0") || has("mlx5_0"))) || has("XGMI");
}

}  // namespace

std::vector<MachineFact> judge(const Topology& machine) { return Judge(machine).run(); }

std::string devices_of(const Topology& machine) {
  const auto several = [&](DeviceKind kind, std::string_view what) {
    const std::size_t count = machine.devices_of(kind).size();
    return counted(static_cast<std::int64_t>(count), what);
  };
  return several(DeviceKind::kGpu, "GPU") + ", " + several(DeviceKind::kNic, "NIC");
}

std::vector<MachineFact> machine_facts(const std::string& file, std::string_view text, std::string* judged) {
  constexpr std::size_t kMost = 8 << 20, kMostGpus = 4096;
  if (text.size() > kMost || !looks_like_machine(text)) return {};
  if (auto peers = of_peers(text); !peers.empty()) return peers;
  const auto& catalog = Catalog::shipped();
  if (!catalog) return {};
  const auto machine = parse_machine_file(*catalog, file, text, {});
  // A matrix of nvidia-smi alone in its file that cannot be read: cut off, as it seems.
  const std::string_view first = trimmed(text).substr(0, trimmed(text).find('\n'));
  if (!machine && first.starts_with("GPU0") && first.find("CPU Affinity") != std::string_view::npos)
    return {{"T13", fmt::format("weft: topology: this file cannot be read: {}", machine.error().message), 1}};
  if (!machine || !machine->machine || machine->machine->devices_of(DeviceKind::kGpu).size() > kMostGpus) return {};
  if (!machine->machine->validate()) return {};
  if (judged != nullptr) {
    *judged = devices_of(*machine->machine);
    for (const std::string& sentence : findings(*machine->machine))
      if (says_no_nvlink(sentence)) *judged += "; " + sentence;
  }
  return judge(*machine->machine);
}

}  // namespace weft::doctor
