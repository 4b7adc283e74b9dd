#pragma once

#include <vector>

#include "base/xml_file.h"
#include "machine/catalog/catalog.h"
#include "machine/detect/host_facts.h"

namespace weft::topology {

// The GPUs' NVLinks by the matrix "NVLinkBandwidth" of a file of hwloc 2 or 3 (hwloc's NVML plugin, MB/s of each
// direction): direct ones and those to NVSwitches. Links are counted by the rate of one of the GPU's generation, so
// that GPUs whose PCI id the catalogue does not have are left out. NVLinks to CPUs (POWER) are left out. Empty: the
// file has no such matrix.
std::vector<HostFacts::Gpu> nvlinks_of(const XmlFile& file, const Catalog& catalog);

}  // namespace weft::topology
