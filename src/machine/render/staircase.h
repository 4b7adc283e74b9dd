#pragma once

#include <string>
#include <vector>

#include "machine/catalog/catalog.h"
#include "machine/topology.h"

namespace weft::topology {

// One step of the way out of a GPU: what one GPU gets of it when all use it, each direction (memory: both together).
struct Step {
  std::string name, detail;
  BytesPerSecond rate;
};

// From HBM over scale-up links, PCIe and the node's NICs to leaves, spines and cores; what the machine lacks is left
// out. Of the first node and its GPUs' average; shares of a level are its links' rates over all GPUs.
std::vector<Step> bandwidth_steps(const Catalog& catalog, const Topology& topology);

// The steps as bars on a logarithmic scale.
std::string staircase_svg(const Catalog& catalog, const Topology& topology);

}  // namespace weft::topology
