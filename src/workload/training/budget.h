#pragma once

#include <cstdint>

#include "base/result.h"

namespace weft::training {

// A whole training run, as its owner counts.
struct Run {
  double tokens = 0;              // to train on; 0: not asked
  double price = 0;               // per GPU-hour, in the asker's currency; 0: not asked
  double failures = 0;            // per 1000 node-days that end the job; 0: none
  double checkpoint_s = 0;        // the time that training stands still for one
  double checkpoint_every_s = 0;  // 0: the interval that loses least
  double restart_s = 600;   // from a failure to the first new step where a spare node is ready: detecting, loading
  double repair_s = 86400;  // until a failed node is back
  std::int64_t spares = 0;  // nodes that stand ready
};

struct Budget {
  double interval_s = 0;   // between checkpoints
  double mttf_s = 0;       // mean time to a failure of the job; 0: never
  double checkpoints = 0;  // shares of the time: writing checkpoints,
  double lost = 0;         // work that is done again,
  double restarts = 0;     // detecting and loading,
  double waiting = 0;      // for a node, while more have failed than there are spares
  double goodput = 1;      // share of the time in which new steps are made
  double days = 0;         // of the run, at that goodput
  double gpu_hours = 0;    // of the job's GPUs and the spares'
  double money = 0;
};

// Failures are independent and as frequent at any time. Every failure loses half an interval on average, and a restart;
// Daly's first-order optimum (Future Generation Computer Systems 22, 2006) is the interval where none is given. Nodes
// that are being repaired are Poisson-distributed; while there are more of them than spares the job stands still.
// Errors (bad input): a number below zero; a machine that fails faster than it restarts.
Result<Budget> budget_of(const Run& run, double tokens_per_gpu, std::int64_t gpus, std::int64_t nodes);

}  // namespace weft::training
