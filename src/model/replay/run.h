#pragma once

#include <functional>
#include <optional>

#include "onesided/pgas/trace.h"
#include "plan/cost/access_costs.h"

namespace weft::replay {

struct Options {
  double compute = 1;  // the factor on the recorded time of what the program does between its operations
  // What posting a message across the network takes; empty: the call of access_costs.json.
  std::optional<Duration> posting = {};
  // What a collective takes when all members have come.
  std::function<Result<Duration>(const pgas::Event& meet)> meeting;
};

// One rank's time by cause.
struct Spent {
  Duration computing, moving, waiting, meeting;
  Duration total() const { return computing + moving + waiting + meeting; }
};

struct Outcome {
  Duration total;  // until the last rank has finished
  std::vector<Spent> ranks;
  std::vector<std::vector<Duration>> ends;  // of every event
  std::int64_t unexplained = 0;             // see LinkedProgram
  std::string busiest_link;                 // and its share of the capacity over the whole run
  double busiest_share = 0;
};

// Carries a program out in virtual time: puts and gets are flows over the machine's links, with the latencies and calls
// of plan/cost/access_costs.h; a wait ends when the writes that ended it in the program can be seen here.
// Deterministic. Errors (bad input): more ranks than the machine has, ranks that no path joins, a program that waits in
// a circle; those of options.meeting.
Result<Outcome> run(const cost::OneSidedView& machine, const pgas::Program& program, const Options& options);

// The same on a machine of this view, with collectives by the algorithms that the tuner chooses for it.
Result<Outcome> run_on(const cost::MachineView& machine, const pgas::Program& program, double compute,
                       std::optional<Duration> posting = {});

}  // namespace weft::replay
