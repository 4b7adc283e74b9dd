#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft::topology {

// What the kernel and NVIDIA's driver say of a machine beyond what hwloc reads. A value type.
struct HostFacts {
  // An adapter as sysfs shows it.
  struct Nic {
    std::string bus_id;     // "0000:0c:00.0"
    std::string verbs;      // RDMA device, e.g. "mlx5_0"; empty: none
    std::string interface;  // network interface, e.g. "eth0"; empty: none
    double megabits = 0;    // of the port, each direction; 0: down or not said

    bool operator==(const Nic&) const = default;
  };
  // A GPU as NVML shows it.
  struct Gpu {
    std::string bus_id;
    std::string sm;                                           // compute capability, e.g. "90"
    std::int32_t switch_links = 0;                            // NVLinks to NVSwitch
    std::vector<std::pair<std::string, std::int32_t>> peers;  // NVLinks to GPUs, by bus id

    bool operator==(const Gpu&) const = default;
  };
  std::vector<Nic> nics;
  std::vector<Gpu> gpus;
  std::string iommu;    // "off", "pt", "on"; empty: not known
  std::string peermem;  // "on", "off"; empty: no NVIDIA driver

  bool operator==(const HostFacts&) const = default;
};

// Reads network interfaces, RDMA devices, IOMMU and kernel modules from a file system like the machine's own below
// `root` ("/", or a folder made for a test). What is not there is left out.
HostFacts read_sysfs(const std::filesystem::path& root);

// GPUs and their NVLinks through NVML, which is loaded at run time; nothing where it is not installed.
std::vector<HostFacts::Gpu> read_nvml();

std::string to_json(const HostFacts& facts);
// Errors (bad input): names file and line or member.
Result<HostFacts> host_facts_from_json(std::string_view name, std::string_view text);

}  // namespace weft::topology
