#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/rehearsal/recording.h"

namespace weft::rehearsal {

struct Place {
  Rank rank = -1;
  std::string line;
};

// Something that would hang, fail or give wrong data on the machine.
struct Finding {
  std::string rule;  // "mismatch", "missing_call", "unmatched_message", "deadlock", "memory", "error"
  std::string text;
  std::vector<Place> places;
};

// Calls of one operation at one line of the program.
struct CallSite {
  int calls = 0;
  double bytes = 0;    // of all calls
  double seconds = 0;  // of all calls
  double exposed = 0;  // s that the compute stream (0) waited for them
};

// One rehearsed rank in virtual time; seconds.
struct RankTime {
  Rank rank = -1;
  double total = 0;
  double step = 0;        // the last step: between the last two steps of one optimizer; 0: fewer than two
  double step_flops = 0;  // of kernels with a formula, in it
  double step_compute = 0, step_exposed = 0;                      // of the compute stream: kernels, waits for calls
  double compute = 0, exposed = 0;                                // likewise, of the whole run
  std::map<std::pair<std::string, std::string>, CallSite> sites;  // by line and operation
};

struct Outcome {
  std::vector<Finding> findings;
  std::vector<RankTime> ranks;  // as in Job::ranks
  std::map<Rank, int> assumed;  // messages with ranks that were not rehearsed, taken as answered, by that rank
};

// Durations in seconds.
struct Durations {
  std::function<Result<double>(const Call& call, const std::vector<Rank>& ranks, Rank self)> call;
  std::function<double(const Kernel&, Rank)> kernel;
};

// Runs the rehearsed ranks in virtual time and matches their calls. Each rank has streams, which work in order; a call
// starts when its stream has come to it on all rehearsed members and the group's call before it has ended; a message
// likewise, of both ends. Members that were not rehearsed come with the last one. Host time is not counted. Errors:
// those of the durations.
Result<Outcome> run(const Job& job, const Durations& durations);

}  // namespace weft::rehearsal
