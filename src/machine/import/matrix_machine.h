#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "machine/catalog/catalog.h"
#include "machine/topology.h"

namespace weft::topology {

// A node as a table of path classes: `nvidia-smi topo -m`, `rocm-smi --showtopo` and NCCL's graph dumps all
// come to this.
struct ClassMatrix {
  // How two devices reach each other. kNone: the table does not say.
  enum class Way : std::uint8_t { kNone, kScaleUp, kPix, kPxb, kPhb, kNode, kSys };
  struct Cell {
    Way way = Way::kNone;
    std::int32_t links = 1;  // of kScaleUp
  };
  struct Entry {
    DeviceKind kind = DeviceKind::kGpu;  // or kNic
    std::string model;                   // of a NIC: its name
    std::int32_t numa = -1;              // -1: not said
    std::int64_t line = 0;               // where it is described, for messages
    Facts facts;
  };

  std::vector<Entry> entries;
  std::vector<std::vector<Cell>> cells;  // square, symmetric
  LinkKind scale_up = LinkKind::kNvlink;

  void resize();  // cells for all entries
};

// A node with these paths.
//   PIX shares a PCIe switch, PXB a switch above those, PHB and NODE a CPU, SYS does not. Devices of one NUMA node
//   share a CPU unless the table says SYS. A GPU whose NVLinks would be more than any GPU has is at an NVSwitch. Rates
//   are not in such tables: PCIe counts as 4.0 x16, an NVLink as 25 GB/s each way, an XGMI link as MI300's.
// Errors (bad input), naming `file` and line: no GPU, SYS between devices that other cells put at one CPU.
Result<Topology> machine_of(const Catalog& catalog, std::string_view file, const ClassMatrix& matrix);

}  // namespace weft::topology
