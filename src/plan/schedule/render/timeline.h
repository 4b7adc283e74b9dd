#pragma once

#include <vector>

#include "plan/schedule/schedule.h"

namespace weft::schedule {

// One step, by its strand and its index there.
struct StepId {
  int strand = 0, step = 0;
};

// From a step to one that it makes possible, at another rank.
struct Arrow {
  StepId from, to;
  ChunkId chunk = -1;  // -1: a signal
};

// When each step could run if every step took as long as any other and connections held everything.
struct Timeline {
  std::vector<std::vector<int>> levels;  // [strand][step]; -1: it never runs
  std::vector<Arrow> arrows;             // messages and signals
  int columns = 0;                       // levels there are
  int stuck = 0;                         // steps that never run
};

// A step's level is one more than that of the step before it in its strand, of the steps whose messages or signals it
// takes, and of those that orders put before it.
// Requires: check(schedule).
Timeline timeline(const Schedule& schedule);

}  // namespace weft::schedule
