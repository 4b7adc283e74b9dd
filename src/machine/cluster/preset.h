#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/embedded.h"
#include "machine/catalog/catalog.h"
#include "machine/topology.h"

namespace weft::topology {

// One machine as data: what it is called, where that is written, and the node itself.
struct Preset {
  std::string name;
  std::string summary;
  std::string source;
  std::string date;
  std::string note;                 // how it differs from the real thing, or from what documents say; may be empty
  std::string network;              // the catalogue's network that joins several of them unless the user names another
  std::vector<std::int32_t> shape;  // of a torus or grid, e.g. {4, 4, 4}; else empty
  Topology node;                    // one node, no network switches
};

// Builds the machine that a file of data/presets describes:
//   "devices": [{"kind": "gpu", "count": 8, "part": "H100-SXM5"}, …]
//   "links": see cluster/wiring.h
//   "shape": [4, 4, 4], where the accelerators form a torus or grid.
// `shape` replaces the file's where it is not empty: a slice of another size. The number of every kind of device then
// grows with the number of accelerators.
// Errors (bad input): names file and the entry; a shape for a preset without one, or one that splits a device.
Result<Preset> read_preset(const Catalog& catalog, const embedded::File& file,
                           std::span<const std::int32_t> shape = {});

// The preset files among `files`, by name.
std::vector<embedded::File> preset_files(std::span<const embedded::File> files);
// "data/presets/dgx-h100.json" -> "dgx-h100".
std::string preset_name(const embedded::File& file);
// What else a preset is called: "names".
std::vector<std::string> other_names(const embedded::File& file);
// By its own name or one of "names": what its GPU or its rental offer is commonly called, e.g. "h100". `name` in small
// letters.
bool preset_is_called(const embedded::File& file, std::string_view name);

}  // namespace weft::topology
