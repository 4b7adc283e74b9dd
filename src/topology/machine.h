#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/topology.h"

namespace weft::topology {

// A MACHINE of the command line to a validated topology: a preset ("dgx-h100"), a preset with size and network
// ("dgx-h100:nodes=16,net=ib-ndr,rails=8"), an NCCL topology XML file or weft's own JSON (topology_json.h); a file of
// one node takes the same options. "this" is not known here: detection needs the operating system (topology/detect).
// Errors (bad input): unknown preset (lists those there are), unknown option or value (lists the options), a file
// that cannot be read or parsed (names file, line and value).
Result<Topology> load_machine(std::string_view machine);

struct PresetInfo {
  std::string name;
  std::string summary;  // one line
  std::string source;
};
std::vector<PresetInfo> presets();

}  // namespace weft::topology
