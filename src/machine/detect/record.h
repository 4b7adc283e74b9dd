#pragma once

#include <filesystem>
#include <optional>

#include "machine/detect/detect.h"

namespace weft::topology {

// Stores what the probes read of a machine in a folder, which is made: hwloc.xml and host_facts.json. The folder can be
// used wherever a machine can (read_recorded).
// Errors: those of the probe; kSystem where the folder cannot be written.
Status record(const HostProbe& probe, const HostFacts& facts, const std::filesystem::path& folder);

// The machine in a folder that `record` wrote, or in an hwloc XML file, at catalogue rates; nothing where the path is
// neither. A FileReader of machine.h.
// Errors (bad input): names the file, and the line where the XML is none.
Result<std::optional<Topology>> read_recorded(const std::filesystem::path& path);

}  // namespace weft::topology
