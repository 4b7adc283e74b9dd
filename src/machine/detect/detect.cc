#include "machine/detect/detect.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "base/embedded.h"
#include "machine/catalog/catalog.h"

namespace weft::topology {
namespace {

using PciDevice = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

constexpr unsigned kNvidia = 0x10de, kAmd = 0x1002;

bool is_nic(const PciDevice& pci) { return pci.class_id == 0x0200 || pci.class_id == 0x0207; }

// Display controllers of other vendors are management chips, not accelerators.
bool is_gpu(const PciDevice& pci) {
  const bool display = pci.class_id == 0x0300 || pci.class_id == 0x0302 || pci.class_id == 0x0380;
  return (pci.vendor_id == kNvidia || pci.vendor_id == kAmd) && (display || pci.class_id == 0x1200);
}

class Detector {
 public:
  Detector(hwloc_topology_t host, const Catalog& catalog, const std::optional<MeasuredRates>& rates,
           Endpoints endpoints, const HostFacts& facts)
      : host_(host), catalog_(catalog), rates_(rates), endpoints_(endpoints), facts_(facts) {}

  Result<Topology> run() {
    topology_.title = "this";
    WEFT_CHECK(add_cpus());
    WEFT_CHECK(add_io());
    if (gpus_ == 0) WEFT_CHECK(add_cores());
    WEFT_CHECK(add_nvlinks());
    for (const Cpu& cpu : cpus_) {
      if (!facts_.iommu.empty()) topology_.set_fact(cpu.device, "iommu", facts_.iommu);
      if (!facts_.peermem.empty()) topology_.set_fact(cpu.device, "peermem", facts_.peermem);
    }
    if (const Status valid = topology_.validate(); !valid) return tl::make_unexpected(valid.error());
    return std::move(topology_);
  }

 private:
  struct Cpu {
    DeviceId device;
    hwloc_obj_t object;  // a NUMA node or a package
    std::string id;      // vendor/family/model
  };

  DeviceId add(DeviceKind kind, std::int32_t index, std::string model = {}, std::string bus = {}) {
    return topology_.add({.kind = kind,
                          .node = 0,
                          .index = index,
                          .model = std::move(model),
                          .bus_id = std::move(bus),
                          .port_rate = {}});
  }

  void connect(LinkKind kind, DeviceId a, DeviceId b, BytesPerSecond rate, Duration latency) {
    topology_.connect({.kind = kind, .a = a, .b = b, .rate_ab = rate, .rate_ba = rate, .latency = latency, .count = 1});
  }

  static std::string info(hwloc_obj_t object, const char* name) {
    for (hwloc_obj_t at = object; at; at = at->parent)
      if (const char* value = hwloc_obj_get_info_by_name(at, name)) return value;
    return {};
  }

  Status add_cpus() {
    const int sockets = hwloc_get_nbobjs_by_type(host_, HWLOC_OBJ_PACKAGE);
    const int numa = hwloc_get_nbobjs_by_type(host_, HWLOC_OBJ_NUMANODE);
    const hwloc_obj_type_t type = sockets > numa ? HWLOC_OBJ_PACKAGE : HWLOC_OBJ_NUMANODE;
    for (hwloc_obj_t at = nullptr; (at = hwloc_get_next_obj_by_type(host_, type, at));) {
      if (hwloc_bitmap_iszero(at->cpuset)) continue;  // memory without cores
      const auto index = static_cast<std::int32_t>(cpus_.size());
      const DeviceId cpu = add(DeviceKind::kCpu, index, info(at, "CPUModel"));
      cpus_.push_back(
          {cpu, at,
           fmt::format("{}/{}/{}", info(at, "CPUVendor"), info(at, "CPUFamilyNumber"), info(at, "CPUModelNumber"))});
      WEFT_TRY(const Link dram, catalog_.memory_link(cpus_.back().id));
      connect(LinkKind::kMemory, cpu, add(DeviceKind::kMemory, index), rates_ ? rates_->memory : dram.rate_ab,
              dram.latency);
    }
    for (std::size_t i = 0; i < cpus_.size(); ++i) {
      for (std::size_t j = i + 1; j < cpus_.size(); ++j) {
        WEFT_TRY(Link link, catalog_.socket_link(cpus_[i].id));
        link.a = cpus_[i].device;
        link.b = cpus_[j].device;
        topology_.connect(link);
      }
    }
    if (cpus_.empty()) return bad_input("the machine has no CPU");
    return {};
  }

  DeviceId cpu_of(hwloc_obj_t object) const {
    for (const Cpu& cpu : cpus_)
      if (object && object->cpuset && hwloc_bitmap_isincluded(object->cpuset, cpu.object->cpuset)) return cpu.device;
    return cpus_[0].device;  // belongs to the whole machine
  }

  Status add_cores() {
    WEFT_TRY(const Link cache, catalog_.link("core-cache", 1));
    const BytesPerSecond rate = rates_ ? rates_->core : cache.rate_ab;
    const Duration latency = (rates_ ? rates_->core_to_core : cache.latency) * 0.5;
    const bool cores = hwloc_get_nbobjs_by_type(host_, HWLOC_OBJ_CORE) > 0;
    std::int32_t index = 0;
    for (hwloc_obj_t at = nullptr; (at = hwloc_get_next_obj_by_type(host_, cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU, at));)
      connect(LinkKind::kMemory, add(DeviceKind::kCore, index++), cpu_of(at), rate, latency);
    return {};
  }

  DeviceId gpu_at(std::string_view bus) const {
    for (DeviceId id = 0; id < static_cast<DeviceId>(topology_.devices().size()); ++id)
      if (topology_.device(id).kind == DeviceKind::kGpu && topology_.device(id).bus_id == bus) return id;
    return -1;
  }

  Status add_nvlinks() {
    DeviceId nvswitch = -1;
    for (const HostFacts::Gpu& gpu : facts_.gpus) {
      const DeviceId own = gpu_at(gpu.bus_id);
      if (own < 0) continue;  // not visible to this process, or ranks sit on cores
      const Part* part = catalog_.find("nvlink", "sm", gpu.sm);
      if (!part && (gpu.switch_links > 0 || !gpu.peers.empty()))
        return bad_input("the catalogue has no NVLink for compute capability '{}'", gpu.sm);
      if (gpu.switch_links > 0) {
        if (nvswitch < 0) nvswitch = add(DeviceKind::kNvSwitch, 0);
        WEFT_TRY(Link up, catalog_.link(part->name, gpu.switch_links));
        up.a = own;
        up.b = nvswitch;
        topology_.connect(up);
      }
      for (const auto& [bus, count] : gpu.peers) {
        const DeviceId peer = gpu_at(bus);
        if (peer <= own || count < 1) continue;  // each pair once
        WEFT_TRY(Link direct, catalog_.link(part->name, count));
        direct.a = own;
        direct.b = peer;
        topology_.connect(direct);
      }
    }
    return {};
  }

  Status add_io() {
    for (hwloc_obj_t at = nullptr; (at = hwloc_get_next_bridge(host_, at));)
      if (at->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST)
        WEFT_CHECK(add_below(at, cpu_of(hwloc_get_non_io_ancestor_obj(host_, at)), 0));
    return {};
  }

  // The PCI tree below a bridge. `level` counts PCI-to-PCI bridges from the root: 0 is a root port, then the
  // upstream and the downstream ports of a switch alternate. Only an upstream port is a device here.
  Status add_below(hwloc_obj_t bridge, DeviceId parent, int level) {
    for (hwloc_obj_t at = bridge->io_first_child; at; at = at->next_sibling) {
      if (at->type == HWLOC_OBJ_BRIDGE) {
        DeviceId under = parent;
        if (level % 2 == 1 && has_device(at)) {
          under = add(DeviceKind::kPcieSwitch, switches_++, {}, bus_of(at->attr->bridge.upstream.pci));
          WEFT_CHECK(connect_pci(at->attr->bridge.upstream.pci, under, parent));
        }
        WEFT_CHECK(add_below(at, under, level + 1));
      } else if (at->type == HWLOC_OBJ_PCI_DEVICE) {
        WEFT_CHECK(add_device(at->attr->pcidev, parent));
      }
    }
    return {};
  }

  static bool has_device(hwloc_obj_t bridge) {
    for (hwloc_obj_t at = bridge->io_first_child; at; at = at->next_sibling) {
      if (at->type == HWLOC_OBJ_PCI_DEVICE && (is_gpu(at->attr->pcidev) || is_nic(at->attr->pcidev))) return true;
      if (at->type == HWLOC_OBJ_BRIDGE && has_device(at)) return true;
    }
    return false;
  }

  static std::string bus_of(const PciDevice& pci) {
    return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
  }

  Status add_device(const PciDevice& pci, DeviceId parent) {
    const bool gpu = is_gpu(pci);
    if (!gpu && !is_nic(pci)) return {};
    if (gpu && endpoints_ == Endpoints::kCores) return {};
    const Part* part =
        catalog_.find(gpu ? "accelerator" : "nic", "pci", fmt::format("{:04x}:{:04x}", pci.vendor_id, pci.device_id));
    const DeviceId device =
        add(gpu ? DeviceKind::kGpu : DeviceKind::kNic, gpu ? gpus_++ : nics_++, part ? part->name : "", bus_of(pci));
    if (part && part->facts.contains("direct")) topology_.set_fact(device, "direct", part->facts.at("direct"));
    for (const HostFacts::Nic& nic : facts_.nics) {
      if (gpu || nic.bus_id != bus_of(pci)) continue;
      if (!nic.verbs.empty()) topology_.set_fact(device, "verbs", nic.verbs);
      if (!nic.interface.empty()) topology_.set_fact(device, "interface", nic.interface);
      topology_.set_port_rate(device, BytesPerSecond::gigabits(nic.megabits * 1e-3));
    }
    return connect_pci(pci, device, parent);
  }

  Status connect_pci(const PciDevice& pci, DeviceId device, DeviceId parent) {
    WEFT_TRY(Link link, catalog_.link("pcie3", 16, topology_.device(parent).kind == DeviceKind::kCpu));
    // hwloc reports the negotiated speed after line coding in GB/s, 0 when it is not known.
    if (pci.linkspeed > 0) link.rate_ab = link.rate_ba = BytesPerSecond::gigabytes(static_cast<double>(pci.linkspeed));
    link.a = device;
    link.b = parent;
    topology_.connect(link);
    return {};
  }

  hwloc_topology_t host_;
  const Catalog& catalog_;
  const std::optional<MeasuredRates>& rates_;
  Endpoints endpoints_;
  const HostFacts& facts_;
  Topology topology_;
  std::vector<Cpu> cpus_;
  std::int32_t gpus_ = 0, nics_ = 0, switches_ = 0;
};

}  // namespace

Result<Topology> detect(const HostProbe& probe, const std::optional<MeasuredRates>& rates, Endpoints endpoints,
                        const HostFacts& facts) {
  if (rates && (rates->memory.value() <= 0 || rates->core.value() <= 0))
    return bad_input("the measured rates of '{}' are not above 0", rates->source);
  WEFT_TRY(const Catalog catalog, Catalog::shipped());
  WEFT_TRY(const HwlocTopology host, probe.read());
  return Detector(host.get(), catalog, rates, endpoints, facts).run();
}

}  // namespace weft::topology
