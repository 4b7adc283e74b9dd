#pragma once

#include "machine/routes.h"
#include "model/sim/packet/options.h"

namespace weft::sim {

// Whether every option that was given changes something on this machine. Errors (bad input): the first one that does
// not, and why: packets are spread where there is one way only, lost or paused where all links give credits, or a
// buffer is smaller than a packet. Time: O(links), for spreading up to some thousand paths.
Status check_effect(const PacketOptions& options, const topology::Topology& topology, const topology::Routes& routes);

}  // namespace weft::sim
