#pragma once

#include <string_view>

#include "machine/import/network_tree.h"

namespace weft::topology {

// Whether a text is a Slurm topology.conf: a line starts with SwitchName= or BlockName=.
bool is_slurm_topology(std::string_view text);

// Slurm's topology.conf (topology/tree and topology/block): which nodes and switches are below which.
// Errors (bad input), naming line and value: a line that is none, a switch or node that is there twice or below two, a
// switch below that is not defined, a cycle, a switch with nothing below, no node.
Result<NetworkTree> parse_slurm(std::string_view name, std::string_view text);

// Whether a text is a Slurm topology.yaml: a line starts with "- topology:".
bool is_slurm_yaml(std::string_view text);

// Slurm's topology.yaml (since 25.05): of its topologies the one of this name; where none is given, the first with
// cluster_default, else the first. Source: topology.yaml(5). Errors (bad input), naming line and value: as parse_slurm;
// no such topology, or one that is neither a tree nor blocks.
Result<NetworkTree> parse_slurm_yaml(std::string_view name, std::string_view text, std::string_view topology = {});

}  // namespace weft::topology
