#pragma once

#include <filesystem>
#include <optional>

#include "machine/catalog/catalog.h"
#include "machine/import/network_tree.h"
#include "machine/topology.h"

namespace weft::topology {

// A file that describes a machine: one node or a whole cluster, or which hosts hang at which switches.
struct MachineFile {
  std::optional<Topology> machine;
  std::optional<NetworkTree> tree;  // what the hosts are the user has to say: node=PRESET
  std::string network;              // the catalogue's, where the file names one; else empty
};

// Reads a file of any form weft knows, recognised by its contents: weft JSON, NCCL system and graph dumps,
// `nvidia-smi topo -m`, `rocm-smi --showtopo`, Slurm topology.conf and topology.yaml
// (of which `topology` names one of several, see slurm.h), `ibnetdiscover`, labels of Kubernetes nodes.
// Errors (bad input): names the file, and the line where the form is known; none of these forms.
Result<MachineFile> read_machine_file(const Catalog& catalog, const std::filesystem::path& file,
                                      std::string_view topology = {});

// The same from memory.
Result<MachineFile> parse_machine_file(const Catalog& catalog, std::string_view name, std::string_view text,
                                       std::string_view topology = {});

}  // namespace weft::topology
