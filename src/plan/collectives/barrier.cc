#include "plan/collectives/barrier.h"

#include "plan/collectives/rotations.h"

namespace weft::collectives {

using namespace schedule;

namespace {

// In round k every rank signals the one 2^k after it: this rank, and all that it has signals of, have come.
// Rounds: ceil(log2 n). Signals sent per rank: as many.
Generator<Step> dissemination_steps(RankContext context) {
  const int n = context.ranks, self = context.rank;
  for (int distance = 1; distance < n; distance *= 2) {
    co_yield signal((self + distance) % n);
    co_yield wait((self - distance % n + n) % n);
  }
}

// Every rank signals every other. Rounds: one. Signals sent per rank: n-1.
Generator<Step> spread_steps(RankContext context) {
  const int n = context.ranks, self = context.rank;
  for (int k = 1; k < n; ++k) co_yield signal((self + k) % n);
  for (int k = 1; k < n; ++k) co_yield wait((self + k) % n);
}

}  // namespace

Algorithm dissemination_barrier() {
  return {.name = "dissemination",
          .collective = Collective::kBarrier,
          .when = "many ranks: logarithmic latency",
          .source = "Hensgen, Finkel and Manber, Two algorithms for barrier synchronization, 1988",
          .in_order = true,
          .steps = dissemination_steps,
          .rotation = by_one_rank,
          .growth = Growth::kPerDoubling};
}
Algorithm spread_barrier() {
  return {.name = "spread",
          .collective = Collective::kBarrier,
          .when = "few ranks: a single hop",
          .source = "all-to-all notification",
          .in_order = true,
          .steps = spread_steps,
          .rotation = by_one_rank,
          .growth = Growth::kPerNode};
}

}  // namespace weft::collectives
