#pragma once

#include <span>
#include <string>

#include "machine/topology.h"
#include "model/sim/flow/disturbances.h"

namespace weft::simulate {

// A machine with faults: what is left of it, and what happens while it runs.
struct Faulted {
  topology::Topology machine;
  sim::Disturbances disturbances;
};

// Applies faults, one text each:
//   nic:3=down  gpu:5/0=down  switch:12=down     a device and its links are gone; KIND:INDEX of the first node, or
//                                                KIND:NODE/INDEX; switch: a network switch by index; or any device by
//                                                the name that `weft topo` prints, e.g. nvswitch:node5/nvswitch0
//   nic:1/0=50%  switch:12=50%                   a device works at a part of its rate: all its links to the network do
//   link:A-B=50%@t=2ms  nic:1/0=50%@t=2ms        from that time of the simulation on
//   link:A-B=down | 50% | +5us                   all links between two devices, by name: gone, slower, later
//   link:A-B=flap:10ms,20%                       carries nothing in the last 20 % of every 10 ms
//   rank:5=slow:2x                               everything that a rank does takes twice as long
//   jitter=exp:2us | uniform:2us[,SEED]          every move ends later by a random time with that mean
// GPUs that are gone take their ranks with them: the others are numbered anew. Flaps and ranks are of what is left.
// Errors (bad input): names the fault that cannot be read, or names something that is not there; the pair that cannot
// reach each other any more.
Result<Faulted> apply_faults(const topology::Topology& machine, std::span<const std::string> faults);

}  // namespace weft::simulate
