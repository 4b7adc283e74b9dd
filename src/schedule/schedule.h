#pragma once

#include <vector>

#include "schedule/algorithm.h"

namespace weft::schedule {

// A schedule written out for every rank: what the verifier proves and pictures show. Ranks x lanes strands.
struct Schedule {
  Shape shape;
  int scratch = 0;  // slots of every rank
  int lanes = 1;
  std::vector<std::vector<Step>> strands;  // [rank * lanes + lane]

  const std::vector<Step>& strand(Rank rank, int lane) const {
    return strands[static_cast<std::size_t>(rank * lanes + lane)];
  }
  std::vector<Step>& strand(Rank rank, int lane) { return strands[static_cast<std::size_t>(rank * lanes + lane)]; }
};

// `story.rank` and `story.lane` are ignored: all of them are written out.
Schedule write_out(const Algorithm& algorithm, Story story);

}  // namespace weft::schedule
