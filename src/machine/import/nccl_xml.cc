#include "machine/import/nccl_xml.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "base/text_file.h"
#include "base/xml_file.h"
#include "machine/import/text_lines.h"

namespace weft::topology {
namespace {

constexpr int kDeepest = 64;             // nested <pci>; real trees have about five levels
constexpr std::int64_t kMostCpus = 256;  // every pair is linked
constexpr std::int64_t kMostLinks = 1024;
constexpr std::int64_t kFastestPort = 3'200'000;  // Mb/s
constexpr std::int32_t kUnknownWidth = 16;        // lanes
constexpr std::string_view kUnknownPcie = "pcie3";

enum class PciKind { kGpu, kNic, kBridge, kNvSwitch, kCpuBridge, kOther };

PciKind kind_of_class(std::string_view pci_class) {
  const std::string text = lower(pci_class);
  const auto starts = [&](std::string_view prefix) { return text.starts_with(prefix); };
  if (starts("0x0300") || starts("0x0302") || starts("0x0380") || starts("0x1200")) return PciKind::kGpu;
  if (starts("0x0200") || starts("0x0207")) return PciKind::kNic;
  if (starts("0x068001")) return PciKind::kCpuBridge;
  if (starts("0x0680")) return PciKind::kNvSwitch;
  if (starts("0x0604")) return PciKind::kBridge;
  return PciKind::kOther;
}

PciKind kind_of(pugi::xml_node pci) {
  const std::string_view pci_class = pci.attribute("class").value();
  if (!pci_class.empty() && kind_of_class(pci_class) != PciKind::kOther) return kind_of_class(pci_class);
  if (pci.child("gpu")) return PciKind::kGpu;
  if (pci.child("nic")) return PciKind::kNic;
  return pci.child("pci") ? PciKind::kBridge : PciKind::kOther;
}

class Importer {
 public:
  Importer(const Catalog& catalog, const XmlFile& file) : catalog_(catalog), file_(file) {}

  Result<Topology> run(std::string_view name) {
    const pugi::xml_node root = file_.root();
    if (std::string_view(root.name()) != "system")
      return bad_input("{}: <{}> where an NCCL <system> is expected", file_.where(root), root.name());
    WEFT_CHECK(number_gpus(root));
    topology_.title = name;
    for (const pugi::xml_node cpu : root.children("cpu")) WEFT_CHECK(add_cpu(cpu));
    if (gpus_.empty()) return no_gpu(root);
    for (const auto& [node, gpu] : gpus_) WEFT_CHECK(add_gpu_links(node, gpu));
    for (const auto& [node, from] : pci_links_) WEFT_CHECK(add_pci_link(node, from));
    WEFT_CHECK(link_cpus());
    if (const Status valid = topology_.validate(); !valid) return bad_input("{}: {}", name, valid.error().message);
    return std::move(topology_);
  }

 private:
  tl::unexpected<Error> no_gpu(pugi::xml_node root) const {
    return bad_input(
        "{}: no GPU is described ({} PCI devices without class); such a file only completes what NCCL finds on the "
        "machine",
        file_.where(root), unclassed_);
  }

  // GPUs are numbered by their `dev` when every one has its own, else by bus id, as CUDA does.
  Status number_gpus(pugi::xml_node root) {
    struct Walker : pugi::xml_tree_walker {
      std::vector<pugi::xml_node> found;
      bool for_each(pugi::xml_node& node) override {
        if (std::string_view(node.name()) == "pci" && kind_of(node) == PciKind::kGpu) found.push_back(node);
        return depth() < 4 * kDeepest;
      }
    } walker;
    root.traverse(walker);
    std::set<std::string> devs, buses;
    for (const pugi::xml_node pci : walker.found) {
      if (const std::string_view dev = pci.child("gpu").attribute("dev").value(); !dev.empty()) devs.emplace(dev);
      buses.insert(lower(pci.attribute("busid").value()));
    }
    const bool by_dev = devs.size() == walker.found.size();
    for (const pugi::xml_node pci : walker.found) {
      const std::string bus = lower(pci.attribute("busid").value());
      std::int64_t number = std::distance(buses.begin(), buses.find(bus));
      if (by_dev) {
        WEFT_TRY(number, file_.integer(pci.child("gpu"), "dev", 0, INT32_MAX, 0));
      }
      gpu_index_[bus] = static_cast<std::int32_t>(number);
    }
    return {};
  }

  Status add_cpu(pugi::xml_node cpu) {
    if (static_cast<std::int64_t>(cpus_.size()) >= kMostCpus)
      return bad_input("{}: more than {} <cpu>", file_.where(cpu), kMostCpus);
    const std::string id = fmt::format("{}/{}/{}", cpu.attribute("vendor").value(), cpu.attribute("familyid").value(),
                                       cpu.attribute("modelid").value());
    const Part* part = catalog_.find("cpu", "id", id);
    const DeviceId device = add(DeviceKind::kCpu, static_cast<std::int32_t>(cpus_.size()), part ? part->name : "", "");
    if (const std::string_view numa = cpu.attribute("numaid").value(); !numa.empty() && !numa_.emplace(numa).second)
      return bad_input("{}: numaid {} is there twice", file_.where(cpu), numa);
    cpus_.push_back({device, id});
    keep(cpu, "", device);
    WEFT_TRY(Link channels, catalog_.memory_link(id));
    channels.a = add(DeviceKind::kMemory, static_cast<std::int32_t>(cpus_.size()) - 1, "", "");
    channels.b = device;
    topology_.connect(channels);
    for (const pugi::xml_node child : cpu.children()) {
      if (std::string_view(child.name()) == "pci") WEFT_CHECK(add_pci(child, device, 1));
      if (std::string_view(child.name()) == "nic") WEFT_CHECK(add_nic(child, child, device, ""));
    }
    return {};
  }

  // Keeps what the format has beyond a device's fields, for a later export.
  void keep(pugi::xml_node node, const std::string& prefix, DeviceId device) {
    for (const pugi::xml_attribute a : node.attributes()) {
      const std::string_view key = a.name();
      if (key == "busid" || key == "link_speed" || key == "link_width" || (prefix.empty() && key == "dev")) continue;
      topology_.set_fact(device, prefix + a.name(), a.value());
    }
  }

  DeviceId add(DeviceKind kind, std::int32_t index, std::string model, std::string bus) {
    return topology_.add({.kind = kind,
                          .node = 0,
                          .index = index,
                          .model = std::move(model),
                          .bus_id = std::move(bus),
                          .port_rate = {}});
  }

  Status add_pci(pugi::xml_node pci, DeviceId parent, int depth) {
    if (depth > kDeepest) return bad_input("{}: <pci> nested deeper than {}", file_.where(pci), kDeepest);
    const std::string bus = lower(pci.attribute("busid").value());
    if (bus.empty()) return bad_input("{}: <pci> has no busid", file_.where(pci));
    for (pugi::xml_node up = pci.parent(); up; up = up.parent())
      if (lower(up.attribute("busid").value()) == bus)
        return bad_input("{}: PCI device {} is inside itself", file_.where(pci), bus);
    switch (kind_of(pci)) {
      case PciKind::kGpu:
        return add_gpu(pci, parent, bus);
      case PciKind::kNic: {
        WEFT_CHECK(claim(pci, bus));
        return add_nic(pci, pci.child("nic"), parent, bus);
      }
      case PciKind::kBridge:
      case PciKind::kCpuBridge:
        break;
      case PciKind::kNvSwitch:
      case PciKind::kOther:
        if (!pci.attribute("class")) ++unclassed_;
        if (!pci.child("pci")) return {};
        break;
    }
    // Ports of one switch chip carry the same bus id in real dumps, so bridges may repeat.
    const DeviceId device = add(DeviceKind::kPcieSwitch, pcie_switches_++, "", bus);
    bridges_.emplace(bus, device);
    keep(pci, "", device);
    WEFT_CHECK(connect_up(pci, device, parent));
    for (const pugi::xml_node child : pci.children()) {
      if (std::string_view(child.name()) == "pci") WEFT_CHECK(add_pci(child, device, depth + 1));
      if (std::string_view(child.name()) == "pcilink") pci_links_.emplace_back(child, device);
    }
    return {};
  }

  Status claim(pugi::xml_node pci, const std::string& bus) {
    if (claimed_.insert(bus).second) return {};
    return bad_input("{}: PCI device {} is there twice", file_.where(pci), bus);
  }

  // "0x10de", "0x2330" to the catalogue's part of that kind.
  std::string model_of(pugi::xml_node pci, std::string_view kind) const {
    const auto digits = [&](const char* attribute) {
      const std::string text = lower(pci.attribute(attribute).value());
      return text.starts_with("0x") ? text.substr(2) : text;
    };
    const Part* part = catalog_.find(kind, "pci", fmt::format("{}:{}", digits("vendor"), digits("device")));
    return part ? part->name : "";
  }

  // RCCL's numbers of AMD's chips ("910", "908") where the PCI device is not listed, if one part alone has that chip.
  std::string model_of_chip(pugi::xml_node gpu) const {
    const std::string chip = fmt::format(" {} ", gpu.attribute("gcn").value());
    const Part* only = nullptr;
    for (const Part& part : catalog_.parts()) {
      const auto fact = part.facts.find("gcn");
      if (part.kind != "accelerator" || fact == part.facts.end()) continue;
      if (fmt::format(" {} ", fact->second).find(chip) == std::string::npos) continue;
      if (only != nullptr) return "";
      only = &part;
    }
    return only != nullptr && chip != "  " ? only->name : "";
  }

  Status add_gpu(pugi::xml_node pci, DeviceId parent, const std::string& bus) {
    WEFT_CHECK(claim(pci, bus));
    std::string model = model_of(pci, "accelerator");
    if (model.empty()) model = model_of_chip(pci.child("gpu"));
    const DeviceId gpu = add(DeviceKind::kGpu, gpu_index_[bus], std::move(model), bus);
    keep(pci, "", gpu);
    keep(pci.child("gpu"), "", gpu);
    if (const Part* part = catalog_.find(topology_.device(gpu).model); part && part->facts.contains("direct"))
      topology_.set_fact(gpu, "direct", part->facts.at("direct"));
    gpus_.emplace_back(pci, gpu);
    gpu_by_bus_[bus] = gpu;
    gpu_parent_[gpu] = parent;
    return connect_up(pci, gpu, parent);
  }

  Status add_nic(pugi::xml_node pci, pugi::xml_node nic, DeviceId parent, const std::string& bus) {
    std::int64_t speed = 0;  // Mb/s of all ports
    for (const pugi::xml_node net : nic.children("net")) {
      WEFT_TRY(const std::int64_t port, file_.integer(net, "speed", -1, INT64_MAX, 0));
      // Some plugins write kb/s or -1; a port that is faster than any counts as unknown.
      if (port > 0 && port <= kFastestPort) speed += port;
    }
    std::string model = model_of(pci, "nic");
    if (model.empty()) model = nic.child("net").attribute("name").value();
    const DeviceId device = topology_.add({.kind = DeviceKind::kNic,
                                           .node = 0,
                                           .index = nics_++,
                                           .model = std::move(model),
                                           .bus_id = bus,
                                           .port_rate = BytesPerSecond::gigabits(static_cast<double>(speed) * 1e-3)});
    if (std::string_view(pci.name()) == "pci") keep(pci, "", device);
    int port = 0;
    for (const pugi::xml_node net : nic.children("net")) keep(net, fmt::format("net{}.", port++), device);
    if (const std::string_view gdr = nic.child("net").attribute("gdr").value(); !gdr.empty())
      topology_.set_fact(device, "gdr", gdr);
    return connect_up(pci, device, parent);
  }

  // The catalogue's PCIe generation for "16.0 GT/s PCIe"; an empty or "Unknown" text is unknown.
  Result<std::string> pcie_generation(pugi::xml_node pci) const {
    const std::string_view text = pci.attribute("link_speed").value();
    if (text.empty() || text.starts_with("Unknown")) return std::string(kUnknownPcie);
    double transfers = 0;
    const auto [rest, error] = read_number(text, transfers);
    const bool unit =
        std::string_view(rest, static_cast<std::size_t>(text.data() + text.size() - rest)).starts_with(" GT/s");
    if (error == std::errc{} && unit)
      for (const Part& part : catalog_.parts())
        if (const Figure* f = part.figure("transfers"); f && f->value == transfers) return part.name;
    return bad_input("{}: link_speed '{}' is no PCIe speed", file_.where(pci), text);
  }

  // Lanes; an unknown number (0, or none) counts as kUnknownWidth.
  Result<std::int64_t> link_width(pugi::xml_node pci) const {
    WEFT_TRY(const std::int64_t width, file_.integer(pci, "link_width", 0, 32, 0));
    if (width == 0) return kUnknownWidth;
    for (const int lanes : {1, 2, 4, 8, 12, 16, 32})  // PCI Express Base Specification: the widths there are
      if (width == lanes) return width;
    return bad_input("{}: no PCIe link has {} lanes", file_.where(pci), width);
  }

  Status connect_up(pugi::xml_node pci, DeviceId device, DeviceId parent) {
    WEFT_TRY(const std::string generation, pcie_generation(pci));
    WEFT_TRY(const std::int64_t width, link_width(pci));
    const bool at_host = topology_.device(parent).kind == DeviceKind::kCpu;
    WEFT_TRY(Link link, catalog_.link(generation, static_cast<std::int32_t>(width), at_host));
    link.a = device;
    link.b = parent;
    topology_.connect(link);
    return {};
  }

  Status add_pci_link(pugi::xml_node node, DeviceId from) {
    const std::string target = lower(node.attribute("target").value());
    const auto to = bridges_.find(target);
    if (to == bridges_.end())
      return bad_input("{}: pcilink to '{}', which is not in the file", file_.where(node), target);
    if (to->second <= from) return {};  // written at both ends, or at itself
    WEFT_TRY(const std::string generation, pcie_generation(node.parent()));
    WEFT_TRY(const std::int64_t width, link_width(node.parent()));
    WEFT_TRY(Link link, catalog_.link(generation, static_cast<std::int32_t>(width)));
    link.a = from;
    link.b = to->second;
    topology_.connect(link);
    return {};
  }

  Status add_gpu_links(pugi::xml_node pci, DeviceId gpu) {
    const pugi::xml_node node = pci.child("gpu");
    std::int64_t to_switch = 0, to_cpu = 0;
    for (const char* tag : {"nvlink", "xgmi"}) {
      for (const pugi::xml_node edge : node.children(tag)) {
        WEFT_TRY(const std::int64_t count, file_.integer(edge, "count", 1, kMostLinks, 1));
        const std::string target = lower(edge.attribute("target").value());
        const PciKind kind = kind_of_class(edge.attribute("tclass").value());
        if (const auto peer = gpu_by_bus_.find(target); peer != gpu_by_bus_.end()) {
          // Both GPUs list the link; the first is taken. A link of a GPU to itself is a bridge that is cut off.
          if (peer->second == gpu || joined_.contains({peer->second, gpu})) continue;
          joined_.insert({gpu, peer->second});
          WEFT_CHECK(connect_gpu(edge, node, count, gpu, peer->second));
        } else if (kind == PciKind::kNvSwitch) {
          to_switch += count;
        } else if (kind == PciKind::kCpuBridge) {
          to_cpu += count;
        } else {
          return bad_input("{}: {} to '{}', which is not in the file", file_.where(edge), tag, target);
        }
      }
    }
    if (to_switch > 0) {
      if (nv_switch_ < 0) nv_switch_ = add(DeviceKind::kNvSwitch, 0, "", "");
      WEFT_CHECK(connect_gpu(node.child("nvlink"), node, to_switch, gpu, nv_switch_));
    }
    if (to_cpu > 0) WEFT_CHECK(connect_gpu(node.child("nvlink"), node, to_cpu, gpu, cpu_above(gpu)));
    for (const pugi::xml_node c2c : node.children("c2c")) WEFT_CHECK(add_c2c(c2c, gpu));
    return {};
  }

  // NVLink-C2C says its own rate: `count` links of `bw` MB/s.
  Status add_c2c(pugi::xml_node c2c, DeviceId gpu) {
    WEFT_TRY(const std::int64_t count, file_.integer(c2c, "count", 1, kMostLinks, 1));
    WEFT_TRY(const std::int64_t bw, file_.integer(c2c, "bw", 1, INT32_MAX, 0));
    if (bw == 0) return bad_input("{}: <c2c> has no bw", file_.where(c2c));
    WEFT_TRY(Link link, catalog_.link("nvlink-c2c", static_cast<std::int32_t>(count)));
    link.rate_ab = link.rate_ba = BytesPerSecond(static_cast<double>(bw) * 1e6) * static_cast<double>(count);
    link.a = gpu;
    link.b = cpu_above(gpu);
    topology_.connect(link);
    return {};
  }

  DeviceId cpu_above(DeviceId gpu) const {
    DeviceId at = gpu_parent_.at(gpu);
    // The first link of a bridge is the one towards the root.
    while (topology_.device(at).kind != DeviceKind::kCpu) at = topology_.other_end(topology_.links_of(at)[0], at);
    return at;
  }

  // `edge` is an <nvlink> or <xgmi> of the <gpu> element `node`.
  Status connect_gpu(pugi::xml_node edge, pugi::xml_node node, std::int64_t count, DeviceId gpu, DeviceId to) {
    const bool nvlink = std::string_view(edge.name()) == "nvlink";
    const char* attribute = nvlink ? "sm" : "gcn";
    const std::string_view generation = node.attribute(attribute).value();
    const Part* part = catalog_.find(edge.name(), attribute, generation);
    if (!part || generation.empty())
      return bad_input("{}: the catalogue has no {} for {} '{}'", file_.where(node), edge.name(), attribute,
                       generation);
    WEFT_TRY(Link link, catalog_.link(part->name, static_cast<std::int32_t>(std::min(count, kMostLinks))));
    link.a = gpu;
    link.b = to;
    topology_.connect(link);
    return {};
  }

  // The file does not say how CPUs are joined: every pair is, by the link of its model.
  Status link_cpus() {
    for (std::size_t i = 0; i < cpus_.size(); ++i) {
      for (std::size_t j = i + 1; j < cpus_.size(); ++j) {
        WEFT_TRY(Link link, catalog_.socket_link(cpus_[i].id));
        link.a = cpus_[i].device;
        link.b = cpus_[j].device;
        topology_.connect(link);
      }
    }
    return {};
  }

  struct Cpu {
    DeviceId device;
    std::string id;  // vendor/family/model
  };

  const Catalog& catalog_;
  const XmlFile& file_;
  Topology topology_;
  std::vector<Cpu> cpus_;
  std::set<std::string> numa_;
  std::set<std::string> claimed_;  // bus ids of GPUs and NICs
  std::map<std::string, std::int32_t> gpu_index_;
  std::map<std::string, DeviceId> gpu_by_bus_;
  std::map<DeviceId, DeviceId> gpu_parent_;
  std::map<std::string, DeviceId> bridges_;
  std::vector<std::pair<pugi::xml_node, DeviceId>> gpus_;
  std::vector<std::pair<pugi::xml_node, DeviceId>> pci_links_;
  std::set<std::pair<DeviceId, DeviceId>> joined_;
  DeviceId nv_switch_ = -1;
  std::int32_t pcie_switches_ = 0, nics_ = 0, unclassed_ = 0;
};

}  // namespace

Result<Topology> parse_nccl_xml(const Catalog& catalog, std::string_view name, std::string_view text) {
  WEFT_TRY(const XmlFile file, XmlFile::parse(name, text));
  return Importer(catalog, file).run(name);
}

Result<Topology> import_nccl_xml(const Catalog& catalog, const std::filesystem::path& file) {
  WEFT_TRY(const std::string text, read_text_file(file));
  return parse_nccl_xml(catalog, file.filename().string(), text);
}

}  // namespace weft::topology
