#pragma once

#include <span>
#include <string>

#include "model/sim/flow/background.h"
#include "plan/cost/machine_view.h"

namespace weft::simulate {

// Parses background traffic, one text per load:
//   A-B=40%        between two devices, by name, both ways, where their traffic goes; of the narrowest link on the way
//   A-B=100Gb/s    a rate: MB/s, GB/s, Mb/s, Gb/s
//   uniform=30%    from every NIC to NICs of other nodes, and as much to every one; on a machine of one node from every
//                  GPU to other GPUs
//   …,flows=4      each of them as this many flows (8 if not given): the more, the less a job gets where both want a
//   link …,seed=7       of who sends to whom (uniform), and, the last load's, of when packets come (1 if not given)
//   …,class=1      its service class, at packet level (0 if not given)
// Errors (bad input): names the load that cannot be read, that names what is not there, or that is more than a link.
Result<sim::Background> background_of(const cost::MachineView& machine, std::span<const std::string> loads);

// What each direction of a link has left, for MachineView::set_left: its rate less what is asked of it, and at the
// least the fair share of one flow more.
std::vector<BytesPerSecond> left_by(const sim::Background& background, const topology::Topology& machine);

}  // namespace weft::simulate
