#pragma once

#include <hwloc.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace weft::topology {

struct HwlocDeleter {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, HwlocDeleter>;

// The source of a machine's description: the machine itself, or one recorded or made up for a test.
class HostProbe {
 public:
  virtual ~HostProbe() = default;

  // Errors: kSystem or bad input, when hwloc cannot read or build it.
  virtual Result<HwlocTopology> read() const = 0;
};

// The machine this process runs on, restricted to the CPUs it may use.
class ThisHost : public HostProbe {
 public:
  // PCI devices take longest to read, each by a slow access to its registers.
  enum class Devices : std::uint8_t { kRead, kLeftOut };
  explicit ThisHost(Devices devices = Devices::kRead) : devices_(devices) {}
  Result<HwlocTopology> read() const override;

 private:
  Devices devices_;
};

// hwloc's synthetic description, e.g. "pack:2 [numa] l3:1 core:4 pu:1".
class SyntheticHost : public HostProbe {
 public:
  explicit SyntheticHost(std::string description) : description_(std::move(description)) {}
  Result<HwlocTopology> read() const override;

 private:
  std::string description_;
};

// hwloc's XML of a machine that was read, for RecordedHost. Errors: kSystem.
Result<std::string> to_hwloc_xml(hwloc_topology_t topology);

// The text of an hwloc XML file (`lstopo machine.xml`).
class RecordedHost : public HostProbe {
 public:
  explicit RecordedHost(std::string xml) : xml_(std::move(xml)) {}
  Result<HwlocTopology> read() const override;

 private:
  std::string xml_;
};

}  // namespace weft::topology
