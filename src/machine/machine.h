#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "machine/topology.h"

namespace weft::topology {

// Reads a file that topology itself does not know (hwloc XML, a recorded machine: topology/detect); nothing for others.
using FileReader = std::function<Result<std::optional<Topology>>(const std::filesystem::path&)>;

// A MACHINE of the command line to a validated topology: a preset ("dgx-h100"), a preset with options
// ("dgx-h100:nodes=16,net=ib-ndr,rails=8"), or a file in any of the forms of import/machine_file.h; a file of one node
// takes the same options, one of hosts and switches needs node=PRESET. The options are ClusterOptions (cluster.h),
// `shape` of a torus or grid, `and=PRESET*NODES` (further nodes of another kind), and Routing (topology.h). "this" is
// not known here: detection needs the operating system. Errors (bad input): unknown preset (lists those there are),
// unknown option or value (lists the options), a file that cannot be read or parsed (names file, line and value).
Result<Topology> load_machine(std::string_view machine, const FileReader& reader = {});

struct PresetInfo {
  std::string name;
  std::string summary;  // one line
  std::string source;
  std::string note;  // may be empty
};
std::vector<PresetInfo> presets();

}  // namespace weft::topology
