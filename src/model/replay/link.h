#pragma once

#include "onesided/pgas/trace.h"

namespace weft::replay {

// An event of a program, with what it takes to carry it out in another order of things: what the program did by itself
// before, and which writes of others a wait waited for.
struct Step {
  const pgas::Event* event = nullptr;
  Duration gap;            // between the rank's event before and this one
  bool announced = false;  // a write that some wait waited for: the peer learns when it can be seen
  struct Need {
    Rank writer = -1;
    std::int64_t count = 0;  // the number of that rank's announced writes to this one that must have come
  };
  std::vector<Need> needs;  // waits
};

struct LinkedProgram {
  std::vector<std::vector<Step>> ranks;
  // Waits for which no write is in the program: the word was changed by plain stores, and no time passes there.
  std::int64_t unexplained = 0;
};

// Finds for every wait the writes that ended it: those to its word that came after the wait before, up to the first
// that leaves a value the wait accepts. Where the times are those of one clock, the result has no cycles.
// `program` must outlive the result.
LinkedProgram link(const pgas::Program& program);

}  // namespace weft::replay
