#pragma once

#include <filesystem>
#include <string_view>

#include "machine/catalog/catalog.h"
#include "machine/topology.h"

namespace weft::topology {

// One node from an NCCL (or RCCL) system topology: the XML that NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads.
//   A <pci> is what its class says (GPU, NIC, bridge); without class, what its <gpu> or <nic> child says.
//   Rates are the raw ones: PCIe from link_speed and link_width, NVLink by the GPU's sm and XGMI by its gcn from the
//   catalogue. An unknown PCIe speed or width counts as PCIe 3.0 x16, as NCCL counts it. NVSwitch chips become one
//   device. An NVLink of a GPU to itself (virtual machines with the bridge cut off) is left out.
//   Attributes that a Device has no member for become its facts.
//   CPUs get the memory that the catalogue gives their model, the slowest server CPU's where it is unknown.
// Errors (bad input), naming file and line: not XML, larger than 64 MiB, no GPU, a GPU or NIC
// whose bus id is there twice, an impossible link width or speed, an NVLink to a device that is not there.
Result<Topology> import_nccl_xml(const Catalog& catalog, const std::filesystem::path& file);

// The same from memory; `name` stands for the file in messages.
Result<Topology> parse_nccl_xml(const Catalog& catalog, std::string_view name, std::string_view text);

}  // namespace weft::topology
