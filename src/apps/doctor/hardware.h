#pragma once

#include <functional>
#include <optional>
#include <string>

#include "apps/doctor/probes.h"

namespace weft::doctor {

// What was found on a machine: its rule, whether it stops jobs, a name, where it was seen, what was seen, remedy,
// command.
struct MachineFinding {
  bool root = false;
  std::string id, finding, where, text, remedy, verify;
};
using MachineFinder = std::function<void(MachineFinding)>;
// A file of /proc or /sys; counts what could be read.
using Reader = std::function<std::optional<std::string>(const std::string& path)>;

// GPUs, NICs, their PCIe links, IOMMU, interrupts, kernel modules, device files and versions of this machine.
void examine_hardware(const Probes& probes, const Reader& read, const MachineFinder& found);

}  // namespace weft::doctor
