#pragma once

#include <string>
#include <vector>

#include "topology/catalog/catalog.h"
#include "topology/topology.h"

namespace weft::topology {

struct ClusterOptions {
  std::int32_t nodes = 1;
  std::string network;       // a network of the catalogue, e.g. "ib-ndr"; empty: no network
  std::int32_t rails = 0;    // NICs used per node; 0: all there are, or one when the node has none
  std::int32_t oversub = 1;  // a leaf's ports towards nodes per port towards spines
};

// `options.nodes` copies of `node` over a two-level network of `options.network`'s switches.
//   One switch when it has ports for every NIC. Otherwise rail-optimised: NIC r of every node of a group hangs at leaf
//   r of that group, a group being as many nodes as a leaf has ports for, and every leaf reaches every spine. A spine
//   with more leaves than one switch has ports stands for a chassis or a folded third level. NICs are spread evenly
//   over those of the node; a node without NICs gets `rails` of them at its CPUs.
// Ensures: leaves come before spines in the switches' order; with nodes == 1 and no network, a copy of `node`.
// Errors (bad input): several nodes without a network, unknown network, more rails than NICs.
Result<Topology> build_cluster(const Catalog& catalog, const Topology& node, const ClusterOptions& options);

// The names of the catalogue's networks.
std::vector<std::string> network_names(const Catalog& catalog);

}  // namespace weft::topology
