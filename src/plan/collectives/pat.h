#pragma once

#include <vector>

#include "plan/schedule/algorithm.h"

namespace weft::collectives {

// One round of PAT: the blocks, named by how far after the rank their owner is, that it receives from the rank `hop`
// after it. Rounds are the same for every rank.
struct PatRound {
  int hop = 1;
  std::vector<int> distances;
};
// The rounds in the order of the all-gather. `aggregate`: how many blocks share a message at most, a power of two.
std::vector<PatRound> pat_rounds(Rank ranks, int aggregate);

schedule::Algorithm pat_all_gather();
schedule::Algorithm pat_reduce_scatter();

}  // namespace weft::collectives
