#include "machine/import/nccl_xml_write.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <pugixml.hpp>
#include <set>
#include <sstream>
#include <vector>

namespace weft::topology {
namespace {

constexpr std::string_view kNvidiaClass = "0x030200", kAmdClass = "0x120000", kNicClass = "0x020700",
                           kBridgeClass = "0x060400", kNvSwitchClass = "0x068000";

void set(pugi::xml_node node, const char* key, const std::string& value) { node.append_attribute(key) = value.c_str(); }

// The first of the words of a fact, or "".
std::string first_word(const Part* part, const char* fact) {
  const auto at = part ? part->facts.find(fact) : std::map<std::string, std::string>::const_iterator{};
  if (!part || at == part->facts.end()) return {};
  return at->second.substr(0, at->second.find(' '));
}

class Writer {
 public:
  Writer(const Catalog& catalog, const Topology& topology, std::int32_t node)
      : catalog_(catalog), topology_(topology), node_(node) {}

  Result<std::string> run() {
    bool gpu = false;
    for (DeviceId id = 0; id < static_cast<DeviceId>(topology_.devices().size()); ++id) {
      const Device& d = topology_.device(id);
      if (d.node != node_) continue;
      gpu = gpu || d.kind == DeviceKind::kGpu;
      amd_ = amd_ || (d.kind == DeviceKind::kGpu && is_amd(catalog_.find(d.model), id));
      if (!d.bus_id.empty()) taken_.insert(d.bus_id);
    }
    for (const Link& l : topology_.links())
      if (l.kind == LinkKind::kChipLink && topology_.device(l.a).node == node_)
        return bad_input("'{}' has chip links, for which NCCL's format has no place; JSON has", topology_.title);
    if (!gpu)
      return bad_input("node {} of '{}' has no GPU; NCCL describes only nodes that have", node_, topology_.title);

    pugi::xml_document document;
    pugi::xml_node system = document.append_child("system");
    set(system, "version", amd_ ? "2" : "1");  // RCCL's and NCCL's
    for (DeviceId id = 0; id < static_cast<DeviceId>(topology_.devices().size()); ++id)
      if (topology_.device(id).node == node_ && topology_.device(id).kind == DeviceKind::kCpu) add_cpu(system, id);
    std::ostringstream out;
    document.save(out, "  ", pugi::format_indent | pugi::format_no_declaration);
    // NCCL's reader takes the blank before "/>" for the start of one more attribute.
    std::string text = out.str();
    for (std::size_t at = 0; (at = text.find(" />", at)) != std::string::npos;) text.erase(at, 1);
    return text;
  }

 private:
  void add_cpu(pugi::xml_node system, DeviceId id) {
    const Device& d = topology_.device(id);
    const Part* part = catalog_.find(d.model);
    if (!part) part = catalog_.find("cpu", "models", d.model);
    std::string cpu_id = first_word(part, "id");
    if (cpu_id.empty()) cpu_id = "GenuineIntel/6/85";
    const std::size_t one = cpu_id.find('/'), two = cpu_id.rfind('/');
    pugi::xml_node cpu = system.append_child("cpu");
    if (!d.facts.get("numaid").empty() || !d.facts.get("vendor").empty()) {
      for (const auto& [key, value] : d.facts)
        if (!is_host_setting(key)) set(cpu, key.c_str(), value);
      return add_below(cpu, id, -1);
    }
    set(cpu, "numaid", std::to_string(d.index));
    set(cpu, "affinity", "");
    set(cpu, "arch", cpu_id.starts_with("ARM") ? "arm64" : "x86_64");
    set(cpu, "vendor", cpu_id.substr(0, one));
    set(cpu, "familyid", cpu_id.substr(one + 1, two - one - 1));
    set(cpu, "modelid", cpu_id.substr(two + 1));
    add_below(cpu, id, -1);
  }

  // Everything that hangs at `parent` over PCIe, or over NVLink-C2C when the GPU has no PCIe.
  void add_below(pugi::xml_node xml, DeviceId parent, DeviceId grandparent) {
    for (const LinkId l : topology_.links_of(parent)) {
      const DeviceId id = topology_.other_end(l, parent);
      const DeviceKind kind = topology_.device(id).kind;
      const bool pcie = topology_.link(l).kind == LinkKind::kPcie;
      const bool leaf = kind == DeviceKind::kGpu || kind == DeviceKind::kNic;
      if (id == grandparent || (!leaf && kind != DeviceKind::kPcieSwitch) ||
          (!pcie && (kind != DeviceKind::kGpu || has_pcie(id))))
        continue;
      if (!written_.insert(id).second) continue;
      const Facts& facts = topology_.device(id).facts;
      if (kind == DeviceKind::kNic && topology_.device(id).bus_id.empty() && !facts.get("net0.dev").empty()) {
        add_ports(xml.append_child("nic"), id);  // as it was read: a NIC without a PCI device
        continue;
      }
      pugi::xml_node pci = xml.append_child("pci");
      set(pci, "busid", bus(id));
      const Part* part = catalog_.find(topology_.device(id).model);
      if (is_imported(facts)) {
        for (const char* key : kPciFacts)
          if (const std::string_view value = facts.get(key); !value.empty()) set(pci, key, std::string(value));
      } else {
        describe(pci, kind, part, id);
      }
      set(pci, "link_speed", pcie ? speed_text(topology_.link(l)) : "");
      set(pci, "link_width", pcie ? std::to_string(topology_.link(l).count) : "0");
      if (kind == DeviceKind::kGpu) add_gpu(pci, id, part);
      if (kind == DeviceKind::kNic) add_nic(pci, id, part);
      if (kind == DeviceKind::kPcieSwitch) {
        add_below(pci, id, parent);
        add_pci_links(pci, id);
      }
    }
  }

  static bool is_host_setting(std::string_view key) {
    return key == "iommu" || key == "acs" || key == "peermem" || key == "p2p";
  }
  // A device that came from such a file has at least one of these.
  static constexpr const char* kPciFacts[] = {"class", "vendor", "device", "subsystem_vendor", "subsystem_device",
                                              "keep",  "coll"};
  static bool is_imported(const Facts& facts) {
    return std::ranges::any_of(kPciFacts, [&](const char* key) { return !facts.get(key).empty(); }) ||
           !facts.get("net0.dev").empty() || !facts.get("rank").empty() || !facts.get("sm").empty();
  }

  void describe(pugi::xml_node pci, DeviceKind kind, const Part* part, DeviceId id) const {
    if (kind == DeviceKind::kPcieSwitch) set(pci, "class", std::string(kBridgeClass));
    if (kind == DeviceKind::kGpu) set(pci, "class", std::string(is_amd(part, id) ? kAmdClass : kNvidiaClass));
    if (kind == DeviceKind::kNic) set(pci, "class", std::string(kNicClass));
    if (const std::string ids = first_word(part, "pci"); ids.size() == 9) {
      set(pci, "vendor", "0x" + ids.substr(0, 4));
      set(pci, "device", "0x" + ids.substr(5));
    }
  }

  bool has_pcie(DeviceId id) const {
    return std::ranges::any_of(topology_.links_of(id),
                               [&](LinkId l) { return topology_.link(l).kind == LinkKind::kPcie; });
  }
  bool is_amd(const Part* part, DeviceId id) const {
    return (part && part->facts.contains("gcn")) || std::ranges::any_of(topology_.links_of(id), [&](LinkId l) {
             return topology_.link(l).kind == LinkKind::kXgmi;
           });
  }

  const std::string& bus(DeviceId id) {
    std::string& text = buses_[id];
    if (!text.empty()) return text;
    text = topology_.device(id).bus_id;
    while (text.empty()) {
      std::string made_up = fmt::format("{:04x}:{:02x}:00.0", next_bus_ / 256, next_bus_ % 256);
      ++next_bus_;
      if (taken_.insert(made_up).second) text = std::move(made_up);
    }
    return text;
  }

  // "32.0 GT/s PCIe": the fastest generation whose rate on these lanes is not above the link's.
  std::string speed_text(const Link& link) const {
    double transfers = 2.5;
    for (const Part& part : catalog_.parts()) {
      const Figure* f = part.figure("transfers");
      if (!f || f->value < transfers) continue;
      if (const auto same = catalog_.link(part.name, link.count);
          same && same->rate_ab.value() <= link.rate_ab.value() * 1.001)
        transfers = f->value;
    }
    return fmt::format("{:.1f} GT/s PCIe", transfers);
  }

  // The first link of a switch is the one towards the root; its children were written below it.
  void add_pci_links(pugi::xml_node pci, DeviceId id) {
    for (const LinkId l : topology_.links_of(id)) {
      const DeviceId to = topology_.other_end(l, id);
      const auto child = [&](DeviceId a, DeviceId b) { return topology_.links_of(b).front() == l && a != b; };
      if (topology_.device(to).kind != DeviceKind::kPcieSwitch || child(id, to) || child(to, id)) continue;
      set(pci.append_child("pcilink"), "target", bus(to));
    }
  }

  void add_gpu(pugi::xml_node pci, DeviceId id, const Part* part) {
    pugi::xml_node gpu = pci.append_child("gpu");
    const Facts& facts = topology_.device(id).facts;
    set(gpu, "dev", std::to_string(topology_.device(id).index));
    if (is_imported(facts)) {
      for (const auto& [key, value] : facts)
        if (key != "direct" && key != "numa" && std::ranges::find(kPciFacts, key) == std::end(kPciFacts))
          set(gpu, key.c_str(), value);
    } else {
      if (const std::string sm = first_word(part, "sm"); !sm.empty()) set(gpu, "sm", sm);
      set(gpu, "rank", std::to_string(topology_.device(id).index));
      set(gpu, "gdr", "1");
    }
    for (const LinkId l : topology_.links_of(id)) {
      const Link& link = topology_.link(l);
      const bool xgmi = link.kind == LinkKind::kXgmi;
      const DeviceId to = topology_.other_end(l, id);
      const DeviceKind kind = topology_.device(to).kind;
      if (!xgmi && link.kind != LinkKind::kNvlink) continue;
      if (kind == DeviceKind::kCpu) {
        pugi::xml_node c2c = gpu.append_child("c2c");
        set(c2c, "bw", fmt::format("{:.0f}", link.rate_ab.value() / link.count * 1e-6));  // MB/s
        set(c2c, "count", std::to_string(link.count));
      }
      if (kind != DeviceKind::kGpu && kind != DeviceKind::kNvSwitch) continue;
      const char* generation = xgmi ? "gcn" : "sm";
      if (!gpu.attribute(generation)) set(gpu, generation, generation_of(link, part, generation));
      pugi::xml_node edge = gpu.append_child(xgmi ? "xgmi" : "nvlink");
      set(edge, "target", bus(to));
      set(edge, "count", std::to_string(link.count));
      set(edge, "tclass",
          std::string(kind == DeviceKind::kNvSwitch ? kNvSwitchClass
                      : xgmi                        ? kAmdClass
                                                    : kNvidiaClass));
    }
  }

  // The GPU generation whose links have this rate: the model's own, or else the first in the catalogue.
  std::string generation_of(const Link& link, const Part* part, const char* fact) const {
    const double rate = link.rate_ab.value() / link.count;
    const auto fits = [&](const Part* wire) {
      return wire && std::abs(rate_of(*wire->figure("rate")).value() - rate) < rate * 1e-3;
    };
    const char* kind = link.kind == LinkKind::kXgmi ? "xgmi" : "nvlink";
    const std::string own = first_word(part, fact);
    if (!own.empty() && fits(catalog_.find(kind, fact, own))) return own;
    for (const Part& wire : catalog_.parts())
      if (wire.kind == kind && wire.facts.contains(fact) && fits(&wire)) return first_word(&wire, fact);
    return own;
  }

  void add_nic(pugi::xml_node pci, DeviceId id, const Part* part) {
    const Device& d = topology_.device(id);
    pugi::xml_node nic = pci.append_child("nic");
    if (is_imported(d.facts)) return add_ports(nic, id);
    pugi::xml_node net = nic.append_child("net");
    set(net, "name", part || d.model.empty() ? fmt::format("mlx5_{}", d.index) : d.model);
    set(net, "dev", std::to_string(d.index));
    if (d.port_rate.value() > 0) set(net, "speed", fmt::format("{:.0f}", d.port_rate.value() * 8e-6));  // Mb/s
    set(net, "port", "1");
    set(net, "latency", "0.000000");
    set(net, "guid", fmt::format("0x{:x}", d.index + 1));
    set(net, "maxconn", "131072");
    set(net, "gdr", "1");
  }

  // The <net> elements that were read.
  void add_ports(pugi::xml_node nic, DeviceId id) {
    pugi::xml_node net;
    std::string last;
    for (const auto& [key, value] : topology_.device(id).facts) {
      const std::size_t dot = key.find('.');
      if (!key.starts_with("net") || dot == std::string::npos) continue;
      if (key.substr(0, dot) != last) net = nic.append_child("net");
      last = key.substr(0, dot);
      set(net, key.c_str() + dot + 1, value);
    }
  }

  const Catalog& catalog_;
  const Topology& topology_;
  std::int32_t node_;
  std::set<std::string> taken_;
  std::set<DeviceId> written_;
  std::map<DeviceId, std::string> buses_;
  int next_bus_ = 1;
  bool amd_ = false;
};

}  // namespace

Result<std::string> to_nccl_xml(const Catalog& catalog, const Topology& topology, std::int32_t node) {
  return Writer(catalog, topology, node).run();
}

}  // namespace weft::topology
