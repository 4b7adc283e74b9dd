#pragma once

#include <memory>
#include <optional>

#include "plan/cost/machine_view.h"
#include "plan/schedule/lower/lower.h"

namespace weft::cost {

struct Estimate {
  Duration total;
  Duration launch;   // of it: starting the call
  Duration latency;  // of it: launch and all hops of the critical path, with empty messages
  Duration work;     // CPU: of it, what keeps the busiest rank's core busy
};

// α-β times of plans, counted from their own schedules: every strand of channel 0 is walked once with a clock, messages
// arrive a hop's latency after they were sent, streams of slices overlap along chains of moves, and each link's rate is
// shared equally by the connections that use it at once (link_users.h). Not modelled: shares that change over time,
// limited slots (the simulator does both).
// Rounds after the third cost what the third cost. Where the ranks are too many to walk, machines of two or three sizes
// are, each twice the one before (2, 4, 8 nodes at the least, or 16, 32, 64 ranks spread over few large nodes), and
// what a doubling adds is extrapolated, as the algorithm claims that it grows (decision 0108). Caches the expanded
// schedule per algorithm and machine: asked for the same algorithm with other protocols, channels, slices and sizes,
// the cached one serves. Thread: one at a time. The machine must outlive it.
class Estimator {
 public:
  // `sound`: as if all nodes were of the most frequent class.
  explicit Estimator(const MachineView& machine, bool sound = false);
  ~Estimator();

  // Plans slower than `at_most` may return any larger time: large machines are not walked then.
  // Errors: kUnsupported (bad input) naming two ranks and why the protocol does not run between them.
  Result<Estimate> operator()(const schedule::Task& task, const schedule::Plan& plan,
                              std::optional<Duration> at_most = std::nullopt);

 private:
  class ScheduleCache;
  std::unique_ptr<ScheduleCache> schedules_;
};

// One of them.
Result<Estimate> estimate(const MachineView& machine, const schedule::Task& task, const schedule::Plan& plan);

}  // namespace weft::cost
