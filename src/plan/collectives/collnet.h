#pragma once

#include "plan/schedule/algorithm.h"

// All-reduce with switches in the network that sum messages (InfiniBand SHARP), one sum per rail.
namespace weft::collectives {

schedule::Algorithm collnet_chain_all_reduce();
schedule::Algorithm collnet_direct_all_reduce();

}  // namespace weft::collectives
