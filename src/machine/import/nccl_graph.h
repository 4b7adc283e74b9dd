#pragma once

#include <string_view>
#include <vector>

#include "machine/catalog/catalog.h"
#include "machine/topology.h"

namespace weft::topology {

// One <graph> of NCCL_GRAPH_DUMP_FILE: the channels that NCCL searched over a node.
struct NcclGraph {
  std::int32_t id = 0;
  std::string pattern;                              // "ring", "tree", …
  std::string intra, inter;                         // path classes inside the node and to the NIC: "NVL", "PIX", …
  BytesPerSecond speed_intra, speed_inter;          // of one channel, each direction
  std::vector<std::vector<std::int32_t>> channels;  // GPU numbers in order
  std::vector<std::int32_t> nics;                   // NIC numbers that occur
};

// Whether a text is a graph dump.
bool is_nccl_graph(std::string_view text);

// Errors (bad input), naming file and line: not XML, no <graphs>, no channel, a number that is none, a GPU twice in one
// channel.
Result<std::vector<NcclGraph>> parse_nccl_graphs(std::string_view name, std::string_view text);

// The part of a machine that a graph dump describes: its GPUs and NICs, every pair of GPUs with the class of the first
// graph. Shared switches and numbers of links stand in the system dump only (nccl_xml.h).
Result<Topology> machine_of_graphs(const Catalog& catalog, std::string_view name, std::string_view text);

}  // namespace weft::topology
