#pragma once

#include <string_view>

#include "topology/import/network_tree.h"

namespace weft::topology {

// Whether a text is a Slurm topology.conf: a line starts with SwitchName= or BlockName=.
bool is_slurm_topology(std::string_view text);

// Slurm's topology.conf (topology/tree and topology/block): which nodes and switches are below which.
// Errors (bad input), naming line and value: a line that is none, a switch or node that is there twice or below two, a
// switch below that is not defined, a cycle, a switch with nothing below, no node.
Result<NetworkTree> parse_slurm(std::string_view name, std::string_view text);

}  // namespace weft::topology
