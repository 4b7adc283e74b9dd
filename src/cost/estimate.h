#pragma once

#include "cost/machine_view.h"
#include "schedule/lower/lower.h"

namespace weft::cost {

struct Estimate {
  Duration total;
  Duration launch;   // of it: starting the call
  Duration latency;  // of it: launch and all hops of the critical path, with empty messages
};

// α-β time of a plan, counted from its own schedule: every strand of channel 0 is walked once with a clock, messages
// arrive a hop's latency after they were sent, streams of slices overlap along chains of moves, and each link's rate is
// shared equally by the connections that use it at once (link_users.h). Not modelled: shares that change over time,
// limited slots (the simulator does both).
// Rounds after the third cost what the third cost. Where the ranks are too many to walk, machines of at least 2, 4 and
// 8 nodes, or of 16, 32 and 64 ranks spread over few large nodes, are walked, and what each doubling adds is continued,
// as the algorithm claims that it grows (decision 0108). Errors: kUnsupported (bad input) naming two ranks and why the
// protocol does not run between them.
Result<Estimate> estimate(const MachineView& machine, const schedule::Task& task, const schedule::Plan& plan);

}  // namespace weft::cost
