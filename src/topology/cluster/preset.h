#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/embedded.h"
#include "topology/catalog/catalog.h"
#include "topology/topology.h"

namespace weft::topology {

// One machine as data: what it is called, where that is written, and the node itself.
struct Preset {
  std::string name;
  std::string summary;
  std::string source;
  std::string date;
  std::string network;  // the catalogue's network that joins several of them unless the user names another
  Topology node;        // one node, no network switches
};

// Builds the machine that a file of data/presets describes:
//   "devices": [{"kind": "gpu", "count": 8, "part": "H100-SXM5"}, …]
//   "links": [{"from": "gpu*", "to": "cpu*", "part": "pcie5", "count": 16}, {"mesh": "gpu*", "part": …, "count": …}]
// "gpu*" is every GPU, "gpu3" one. When `from` has n devices and `to` has m, device i is linked to i·m/n, in blocks:
// 8 GPUs and 2 CPUs make 0-3 at CPU 0 and 4-7 at CPU 1. A mesh links every pair.
// Errors (bad input): names file and the entry.
Result<Preset> read_preset(const Catalog& catalog, const embedded::File& file);

// The preset files among `files`, by name.
std::vector<embedded::File> preset_files(std::span<const embedded::File> files);
// "data/presets/dgx-h100.json" -> "dgx-h100".
std::string preset_name(const embedded::File& file);

}  // namespace weft::topology
