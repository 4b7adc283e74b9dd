#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "exec/recorder/rails.h"

namespace weft::recorder {

// The sums of one rank's trace. Times: microseconds.
struct RankTimes {
  std::string job, communicator;
  Rank rank = 0, ranks = 1;
  std::int64_t opened = 0;  // nanoseconds since 1970
  std::int64_t calls = 0;
  double in_calls = 0, waiting = 0;
  std::map<Rank, double> waiting_for;
  std::vector<Rail> rails;  // of its process; empty: no sockets, or a rank that was killed
  bool breaks_off = false;  // in the middle of a line: the rank was killed
};

// Traces of several ranks as one.
struct Timeline {
  std::vector<nlohmann::json> events;  // of Chrome's trace event format; the first begins at 0
  std::int64_t opened = 0;             // of the first file
  std::vector<RankTimes> ranks;        // by communicator and rank
};

// Clocks are those of the ranks' machines: on several, events are as far apart as their clocks are.
// Errors (bad input): a file cannot be read or is no trace of weft, with its name and line.
Result<Timeline> merge_traces(const std::vector<std::string>& files);

}  // namespace weft::recorder
