#pragma once

#include <vector>

#include "base/result.h"
#include "plan/schedule/algorithm.h"

namespace weft::schedule {

// A step of one lane begins only when a step of another lane of the same rank has ended. Algorithms never need it: a
// strand is in order, and strands meet in messages and signals. Files that others wrote do.
struct Order {
  std::int32_t strand = 0, step = 0;  // the one that waits: [rank * lanes + lane], index in the strand
  std::int32_t lane = 0, after = 0;   // the lane it waits for, and the index in that strand

  auto operator<=>(const Order&) const = default;
};

// A schedule written out for every rank: what the verifier proves and pictures show. Ranks x lanes strands.
struct Schedule {
  Shape shape;
  int scratch = 0;  // slots of every rank
  int lanes = 1;
  std::vector<std::vector<Step>> strands;  // [rank * lanes + lane]
  std::vector<Order> orders;               // sorted

  const std::vector<Step>& strand(Rank rank, int lane) const {
    return strands[static_cast<std::size_t>(rank * lanes + lane)];
  }
  std::vector<Step>& strand(Rank rank, int lane) { return strands[static_cast<std::size_t>(rank * lanes + lane)]; }
  bool operator==(const Schedule&) const = default;
};

// `context.rank` and `context.lane` are ignored: all of them are written out.
Schedule write_out(const Algorithm& algorithm, RankContext context);

// Whether strands, shape and orders fit each other; steps may still be wrong. Errors (bad input): what does not fit.
Status check(const Schedule& schedule);

}  // namespace weft::schedule
