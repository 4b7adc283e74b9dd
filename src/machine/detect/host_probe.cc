#include "machine/detect/host_probe.h"

namespace weft::topology {
namespace {

Result<HwlocTopology> create() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return failure(Code::kSystem, Blame::kProcess, "hwloc_topology_init failed");
  HwlocTopology topology(raw);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  return topology;
}

Result<HwlocTopology> load(HwlocTopology topology) {
  if (hwloc_topology_load(topology.get()) != 0)
    return failure(Code::kSystem, Blame::kOperation, "hwloc_topology_load failed: the machine cannot be read");
  return topology;
}

}  // namespace

Result<HwlocTopology> ThisHost::read() const {
  WEFT_TRY(HwlocTopology topology, create());
  // hwloc then reads PCI from sysfs by itself; its pciaccess plugin finds the same and leaks when it is unloaded, and
  // the OpenCL and display plugins start drivers in this process. The x86 component would move this thread to every
  // core in turn, which waits for a place on each where many ranks start; Linux reports the same in files.
  for (const char* plugin : {"pci", "opencl", "gl", "x86"})
    hwloc_topology_set_components(topology.get(), HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, plugin);
  if (devices_ == Devices::kLeftOut) hwloc_topology_set_io_types_filter(topology.get(), HWLOC_TYPE_FILTER_KEEP_NONE);
  return load(std::move(topology));
}

Result<HwlocTopology> SyntheticHost::read() const {
  WEFT_TRY(HwlocTopology topology, create());
  if (hwloc_topology_set_synthetic(topology.get(), description_.c_str()) != 0)
    return bad_input("'{}' is no hwloc synthetic description", description_);
  return load(std::move(topology));
}

Result<std::string> to_hwloc_xml(hwloc_topology_t topology) {
  char* text = nullptr;
  int length = 0;
  if (hwloc_topology_export_xmlbuffer(topology, &text, &length, 0) != 0)
    return failure(Code::kSystem, Blame::kOperation, "hwloc cannot write the machine as XML");
  std::string xml(text, length > 0 ? static_cast<std::size_t>(length) - 1 : 0);
  hwloc_free_xmlbuffer(topology, text);
  return xml;
}

Result<HwlocTopology> RecordedHost::read() const {
  WEFT_TRY(HwlocTopology topology, create());
  // hwloc counts the terminating zero in the length.
  if (hwloc_topology_set_xmlbuffer(topology.get(), xml_.c_str(), static_cast<int>(xml_.size() + 1)) != 0)
    return bad_input("not an hwloc XML file");
  return load(std::move(topology));
}

}  // namespace weft::topology
