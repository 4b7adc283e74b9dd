#pragma once

#include <map>
#include <utility>
#include <vector>

#include "base/report/explorer.h"
#include "base/result.h"
#include "model/sim/flow/disturbances.h"
#include "plan/cost/machine_view.h"
#include "plan/schedule/lower/lower.h"
#include "plan/schedule/verify/verify.h"

namespace weft::explore {

// The moves of a schedule for the stepper, and their times in the simulator.

// What the verifier saw of one move, without its time and without the contributions that it holds.
report::Explorer::Move move_of(const schedule::Schedule& schedule, const schedule::Moved& moved);
// "Rank 1 sends chunk 3 to rank 2; it holds the contributions of 2 of 8 ranks." `holds` of `all` contributions.
std::string sentence(const report::Explorer::Move& move, Rank holds, Rank all);

std::size_t moves_of(const schedule::Schedule& schedule);

// The times at which each strand's operations ran: by rank and strand, in their order.
struct Times {
  struct Span {
    double begin = 0, end = 0;  // us
  };
  std::map<std::pair<Rank, int>, std::vector<Span>> spans;
  double total = 0;  // us
  Rank ranks = 0;    // rank r is as rank r modulo these

  // The strand's spans; null: it has none.
  const std::vector<Span>* of(Rank rank, int lane) const {
    const auto at = spans.find({ranks > 0 ? rank % ranks : rank, lane});
    return at == spans.end() ? nullptr : &at->second;
  }
};
// `folded`: ranks that do the same are simulated once. Errors: those of the simulation; kNoResources: more than
// `most_steps` operations.
Result<Times> times_of(const cost::MachineView& machine, const sim::Disturbances& disturbances,
                       const schedule::Task& task, const schedule::Plan& plan, bool folded, double most_steps);

// Gives move `index` of `moves` of its strand its time. A move may be cut into several equal runs of operations. False:
// operations and moves do not match.
bool set_time(const Times& times, std::size_t index, std::size_t moves, report::Explorer::Move& move);

}  // namespace weft::explore
