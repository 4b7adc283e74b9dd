#pragma once

#include "machine/topology.h"

namespace weft::topology {

// NICs of one node that hang side by side at the same PCIe switch, joined into one with all their lanes: what a
// network's library makes of several slow adapters that belong to one GPU, by striping messages over them.
struct JoinedAdapters {
  Topology node;
  std::int32_t each = 1;  // adapters in one; 1 if nothing was joined
};
// As many as there are NICs per GPU; where that is not a whole number above 1 the node stays as it is.
JoinedAdapters join_adapters(const Topology& node);

}  // namespace weft::topology
