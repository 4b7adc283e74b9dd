#pragma once

#include "plan/cost/shares.h"

namespace weft::cost {

// Seconds that the busiest link direction, or the busiest node's host, needs for `pieces` (by number of path), for each
// byte of a piece as it is on the wire. Zero on CPU machines. Requires: the protocol runs on all those paths.
double busiest_seconds(const MachineView& machine, protocol::Protocol protocol, const Paths& paths,
                       std::span<const double> pieces);

// What a plan makes all links of the whole machine carry: bytes per direction over all ranks and channels, faults
// included. No schedule is faster than its busiest link, so this is a lower bound of every answer about the plan, and
// linear in its steps: a fault shows wherever it lies. A value.
class Load {
 public:
  // Stretches of steps that repeat alike are counted from short ones (Algorithm::repeats). Not counted where it would
  // take more than `most_steps`, on CPU machines, and where ranks share GPUs.
  Load(const MachineView& machine, const schedule::Task& task, const schedule::Plan& plan, double most_steps = 3e6);

  // Zero where it was not counted, or where the protocol does not run. Requires: task and plan as given, but of another
  // protocol, size or slice.
  Duration least(const schedule::Task& task, const schedule::Plan& plan) const;

 private:
  const MachineView* machine_;
  Paths paths_;
  std::vector<double> pieces_;
};

}  // namespace weft::cost
