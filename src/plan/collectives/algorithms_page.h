#pragma once

#include <string>

#include "plan/schedule/algorithm.h"

namespace weft::collectives {

// What the busiest rank does, counted from the steps of all ranks; each number is the most of any rank.
struct Work {
  int steps = 0, messages = 0, remote = 0;  // remote: times it touches peers' memory
  double sent = 0, touched = 0;             // of the message: in messages, and in peers' memory
};
Work busiest(const schedule::Algorithm& algorithm, schedule::RankContext context);

// docs/algorithms.md: every collective and algorithm with what its own schedule says of it: steps, messages and bytes,
// counted on 8 ranks (one node) and on 4 nodes of 8. Markdown.
std::string algorithms_page();

}  // namespace weft::collectives
