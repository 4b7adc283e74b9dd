#pragma once

#include <string>
#include <vector>

#include "machine/catalog/catalog.h"
#include "machine/topology.h"

namespace weft::topology {

// How the switches between the nodes are wired.
enum class Wires {
  kAuto,       // one switch where it has the ports, else rails
  kSwitch,     // one switch, a chassis where its ports do not suffice
  kRails,      // fat tree; NIC r of every node of a group at leaf r of that group
  kFatTree,    // fat tree; all NICs of a node at the same leaf, where one holds them
  kDragonfly,  // groups of switches, every pair joined inside a group, and every pair of groups
  kTorus,      // one switch per node, joined to its neighbours in two or three dimensions
};

// Where NICs that a node does not have yet are plugged in.
enum class NicPlace { kCpu, kSwitch, kGpu };

struct ClusterOptions {
  std::int32_t nodes = 1;
  std::string network;       // a network of the catalogue, e.g. "ib-ndr"; empty: no network
  std::int32_t rails = 0;    // NICs used per node; 0: all there are, or one when the node has none
  std::int32_t oversub = 1;  // a leaf's ports towards nodes per port towards spines
  // The same of a spine, towards cores, in a fat tree of three levels.
  std::int32_t spine_oversub = 1;
  std::int32_t tiers = 0;  // levels of a fat tree: 2 or 3; 0: as few as the network needs without chassis
  Wires wires = Wires::kAuto;
  std::vector<std::int32_t> dims;  // of a torus of nodes; empty: as near to a square or cube as `nodes` divides
  std::int32_t nics = 0;           // NICs of a node instead of its own, of the network's usual kind; 0: its own
  NicPlace nic_place = NicPlace::kCpu;
  std::string nvlink, pcie;  // generations instead of the node's, e.g. "nvlink3", "pcie4"; empty: its own
  std::int32_t gpus = 0;     // GPUs of a node that take part, the first ones; 0: all
  std::int32_t mig = 1;      // instances that each GPU is divided into, each a rank's GPU; 1: none
  std::int32_t mnnvl = 1;    // nodes that a second level of NVSwitches joins into one NVLink domain
  bool sharp = false;        // the network's switches sum, with the software and licences that this takes
  std::string iommu;         // "off", "pt", "on"; empty: not said, counts as off
  std::string tlb;           // of GPUs' memory management: "hit", "miss"; empty: not said, counts as hit
  std::string acs, peermem;  // "on", "off"; empty: not said, count as off and on
  std::string memory;        // devices below the processors: "cxl2-x8*4+nvme-gen5*8"; empty: none
  std::string p2p, gdr;      // how far GPUs reach each other and NICs reach them: "loc" … "sys"; see peer_access.h
};

// Further nodes of another kind, behind those of the first one.
struct OtherNodes {
  Topology node;
  std::int32_t count = 1;
};

// `options.nodes` copies of `node`, then those of `others`, over switches of `options.network`'s kind. NICs are spread
// evenly over those of the node; a node without NICs gets `rails` of them. Nodes of several kinds use equally many
// rails: those that all have, unless `rails` says fewer. Where a spine, core or single switch would need more ports
// than the network's switch has, it stands for a chassis of several.
//
// Ensures: leaves come before spines before cores in the switches' order; with nodes == 1, no others and no network, a
// copy of `node` with the options that concern a node applied.
//
// Errors (bad input): several nodes without a network, unknown network or generation, more rails than NICs, more GPUs
// than the node has, GPUs of a node whose chips pass traffic on, dims that are not the number of nodes, mnnvl for a
// node without NVSwitch, mig for GPUs without it or with mnnvl or p2p, sharp for a network whose switches cannot sum,
// kinds of nodes with different numbers of GPUs, or beside mnnvl.
Result<Topology> build_cluster(const Catalog& catalog, const Topology& node, const ClusterOptions& options,
                               const std::vector<OtherNodes>& others = {});

// The names of the catalogue's networks.
std::vector<std::string> network_names(const Catalog& catalog);
// The error for a network that is none of them: the nearest names, and all.
tl::unexpected<Error> unknown_network(const Catalog& catalog, std::string_view name);

}  // namespace weft::topology
