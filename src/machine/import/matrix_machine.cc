#include "machine/import/matrix_machine.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace weft::topology {
namespace {

using Way = ClassMatrix::Way;

constexpr std::int32_t kMostNvlinks = 18;  // of one GPU: NVLink 4 and 5
constexpr std::string_view kPcie = "pcie4", kXgmi = "xgmi-gfx942";
constexpr std::int32_t kLanes = 16;

// NVLink 2 to 4 run at the same rate; the table does not show a fifth generation.
std::string_view nvlink_generation(std::int32_t links) {
  return links > 12 ? "nvlink4" : links > 6 ? "nvlink3" : "nvlink2";
}

// Union-find with the least member as representative.
class Groups {
 public:
  explicit Groups(std::size_t size) : parent_(size) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }
  std::size_t find(std::size_t x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  void join(std::size_t a, std::size_t b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

class Builder {
 public:
  Builder(const Catalog& catalog, std::string_view file, const ClassMatrix& matrix)
      : catalog_(catalog),
        file_(file),
        matrix_(matrix),
        size_(matrix.entries.size()),
        cpus_(size_),
        hubs_(size_),
        switches_(size_) {}

  Result<Topology> run() {
    topology_.title = file_;
    group();
    WEFT_CHECK(check_sockets());
    WEFT_CHECK(add_cpus());
    WEFT_CHECK(add_devices());
    WEFT_CHECK(add_scale_up());
    if (const Status valid = topology_.validate(); !valid) return bad_input("{}: {}", file_, valid.error().message);
    return std::move(topology_);
  }

 private:
  Way way(std::size_t i, std::size_t j) const { return matrix_.cells[i][j].way; }
  const ClassMatrix::Entry& entry(std::size_t i) const { return matrix_.entries[i]; }

  template <class Visit>
  void pairs(const Visit& visit) const {
    for (std::size_t i = 0; i < size_; ++i)
      for (std::size_t j = i + 1; j < size_; ++j) visit(i, j);
  }

  void group() {
    pairs([&](std::size_t i, std::size_t j) {
      const Way w = way(i, j);
      if (w == Way::kPix) switches_.join(i, j);
      if (w == Way::kPix || w == Way::kPxb) hubs_.join(i, j);
      if (w == Way::kPix || w == Way::kPxb || w == Way::kPhb || w == Way::kNode) cpus_.join(i, j);
    });
    // What is joined by NVLink only shares a CPU when its NUMA node says so, or when nothing says where it is.
    pairs([&](std::size_t i, std::size_t j) {
      const bool said = entry(i).numa >= 0 && entry(j).numa >= 0;
      const bool same = said ? entry(i).numa == entry(j).numa : way(i, j) == Way::kScaleUp || way(i, j) == Way::kNone;
      if (!same || way(i, j) == Way::kSys || cpus_.find(i) == cpus_.find(j)) return;
      for (std::size_t a = 0; a < size_; ++a)
        for (std::size_t b = 0; b < size_; ++b)
          if (cpus_.find(a) == cpus_.find(i) && cpus_.find(b) == cpus_.find(j) && way(a, b) == Way::kSys) return;
      cpus_.join(i, j);
    });
  }

  Status check_sockets() {
    for (std::size_t i = 0; i < size_; ++i)
      for (std::size_t j = i + 1; j < size_; ++j)
        if (way(i, j) == Way::kSys && cpus_.find(i) == cpus_.find(j))
          return bad_input("{}:{}: SYS between two devices that other entries put at one CPU", file_, entry(i).line);
    return {};
  }

  DeviceId add(DeviceKind kind, std::int32_t index, std::string model = {}) {
    return topology_.add(
        {.kind = kind, .node = 0, .index = index, .model = std::move(model), .bus_id = {}, .port_rate = {}});
  }

  Status add_cpus() {
    for (std::size_t i = 0; i < size_; ++i) {
      if (cpus_.find(i) != i) continue;
      const auto index = static_cast<std::int32_t>(cpu_of_.size());
      const DeviceId cpu = add(DeviceKind::kCpu, index);
      if (entry(i).numa >= 0) topology_.set_fact(cpu, "numa", std::to_string(entry(i).numa));
      WEFT_TRY(Link memory, catalog_.memory_link(""));
      memory.a = add(DeviceKind::kMemory, index);
      memory.b = cpu;
      topology_.connect(memory);
      for (const auto& [group, other] : cpu_of_) {
        WEFT_TRY(Link socket, catalog_.socket_link(""));
        socket.a = other;
        socket.b = cpu;
        topology_.connect(socket);
      }
      cpu_of_[i] = cpu;
    }
    return {};
  }

  Status plug(DeviceId device, DeviceId parent) {
    const bool host = topology_.device(parent).kind == DeviceKind::kCpu;
    WEFT_TRY(Link link, catalog_.link(kPcie, kLanes, host));
    link.a = device;
    link.b = parent;
    topology_.connect(link);
    return {};
  }

  std::size_t members(Groups& groups, std::size_t of) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < size_; ++i) count += groups.find(i) == groups.find(of);
    return count;
  }

  // The switch that device i hangs at: its own PIX group's, below the first one of its PXB group; or the CPU.
  Result<DeviceId> parent_of(std::size_t i) {
    const DeviceId cpu = cpu_of_.at(cpus_.find(i));
    if (members(hubs_, i) == 1) return cpu;
    const std::size_t hub = switches_.find(hubs_.find(i)), own = switches_.find(i);
    for (const auto& [group, above] : {std::pair(hub, cpu), std::pair(own, DeviceId{-1})}) {
      if (switch_of_.contains(group)) continue;
      const DeviceId made = add(DeviceKind::kPcieSwitch, static_cast<std::int32_t>(switch_of_.size()));
      WEFT_CHECK(plug(made, above >= 0 ? above : switch_of_.at(hub)));
      switch_of_[group] = made;
    }
    return switch_of_.at(own);
  }

  Status add_devices() {
    std::int32_t gpus = 0, nics = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      WEFT_TRY(const DeviceId parent, parent_of(i));
      const bool gpu = entry(i).kind == DeviceKind::kGpu;
      ids_.push_back(add(entry(i).kind, gpu ? gpus++ : nics++, entry(i).model));
      for (const auto& [key, value] : entry(i).facts) topology_.set_fact(ids_.back(), key, value);
      WEFT_CHECK(plug(ids_.back(), parent));
    }
    if (gpus == 0) return bad_input("{}: there is no GPU", file_);
    return {};
  }

  Status add_scale_up() {
    std::vector<std::int32_t> sum(size_), most(size_);
    for (std::size_t i = 0; i < size_; ++i)
      for (std::size_t j = 0; j < size_; ++j)
        if (i != j && way(i, j) == Way::kScaleUp) {
          sum[i] += matrix_.cells[i][j].links;
          most[i] = std::max(most[i], matrix_.cells[i][j].links);
        }
    const bool nvlink = matrix_.scale_up == LinkKind::kNvlink;
    const auto link = [&](std::int32_t links) {
      return catalog_.link(nvlink ? nvlink_generation(links) : kXgmi, links);
    };
    if (nvlink && *std::ranges::max_element(sum) > kMostNvlinks) {
      const DeviceId nvswitch = add(DeviceKind::kNvSwitch, 0);
      for (std::size_t i = 0; i < size_; ++i) {
        if (most[i] == 0) continue;
        WEFT_TRY(Link up, link(most[i]));
        up.a = ids_[i];
        up.b = nvswitch;
        topology_.connect(up);
      }
      return {};
    }
    for (std::size_t i = 0; i < size_; ++i)
      for (std::size_t j = i + 1; j < size_; ++j) {
        if (way(i, j) != Way::kScaleUp) continue;
        WEFT_TRY(Link direct, link(matrix_.cells[i][j].links));
        direct.a = ids_[i];
        direct.b = ids_[j];
        topology_.connect(direct);
      }
    return {};
  }

  const Catalog& catalog_;
  std::string_view file_;
  const ClassMatrix& matrix_;
  std::size_t size_;
  Groups cpus_, hubs_, switches_;  // who shares a CPU, a tree of PCIe switches, one switch
  Topology topology_;
  std::map<std::size_t, DeviceId> cpu_of_, switch_of_;  // by group
  std::vector<DeviceId> ids_;
};

}  // namespace

void ClassMatrix::resize() { cells.assign(entries.size(), std::vector<Cell>(entries.size())); }

Result<Topology> machine_of(const Catalog& catalog, std::string_view file, const ClassMatrix& matrix) {
  if (matrix.entries.empty()) return bad_input("{}: there is no GPU", file);
  return Builder(catalog, file, matrix).run();
}

}  // namespace weft::topology
