#pragma once

#include "model/simulate/simulate.h"
#include "plan/tune/nccl/choice.h"
#include "plan/tune/tune.h"

namespace weft::predict {

// One collective on one machine.
struct Query {
  tune::Question question;
  const tune::nccl::System* nccl = nullptr;  // what NCCL knows of the machine, if its tuner shall choose
  // How the chosen plan is simulated: with faults, beside others, by packets, … The choice itself is made for the
  // machine alone, so it does not depend on them.
  simulate::Options options = {};
  // Calls that follow each other, as benchmarks make them; the time is that of one, on average. Only of rooted
  // collectives do calls overlap; others take the time of one call.
  int calls = 1;
  // Called with the chosen plan before it is simulated with the options, which may still be changed: to refuse it.
  std::function<Status(const schedule::Plan& plan, simulate::Options& options)> check = {};
  // Called before every plan that is simulated for weft's own choice: those that were, and those that may be.
  std::function<void(int tried, int plans)> progress = {};
  double search_steps = 1e6;  // of weft's own choice: see predict; about a second. A fifth beyond 1,024 ranks
};

struct Answer {
  tune::Candidate choice;     // with its estimate, and why it was chosen
  simulate::Outcome outcome;  // of the chosen plan; with several calls: of one, on average
  int tried = 0;  // plans that were simulated before one was chosen; 0: another's choice, or of CPU cores …
  int plans = 0;  // … of those that might be the fastest by their estimates
};

// A plan's estimate is at most this many times its simulated time (tests/relations_test). So a plan whose estimate is
// this many times a time that was found cannot be faster.
inline constexpr double kEstimateAbove = 1.9;

// Chooses and simulates. weft's own choice: plans are simulated in the order of their estimates, until the next one's
// bound exceeds the best time, or until search_steps have been simulated beyond the first plan's; plans that take an
// eighth of these steps at most come first, with half of them (decision 0181). So the answer is deterministic. NCCL's:
// what its tuner takes. A forced algorithm, protocol and number of channels hold. Errors: those of tune::choose,
// tune::nccl::choose and simulate::simulate. Thread: as MachineView.
Result<Answer> predict(const cost::MachineView& machine, const Query& query);

}  // namespace weft::predict
