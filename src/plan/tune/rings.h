#pragma once

#include <memory>

#include "plan/cost/machine_view.h"
#include "plan/schedule/algorithm.h"

namespace weft::tune {

// Orders in which rings use as many as possible of the links that join the GPUs of a node pairwise, all equally much:
// over several nodes whose GPUs are all joined to each other, zigzags; else rings that share no link, found as NCCL's
// search does. Null where GPUs are not joined so (switches, PCIe, CPUs): any order serves.
std::shared_ptr<const schedule::RingOrders> ring_orders(const cost::MachineView& machine, Rank ranks);

// Of GPUs of which some nodes have more than others. Null: all have as many, or a few nodes
// have more GPUs than can be estimated in reasonable time.
std::shared_ptr<const schedule::UnevenNodes> uneven_nodes(const cost::MachineView& machine, Rank ranks);

}  // namespace weft::tune
