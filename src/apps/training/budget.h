#pragma once

#include <cstdint>

#include "base/report/train.h"
#include "base/result.h"

namespace weft::training {

// Failures are independent and as frequent at any time. Every failure loses half an interval on average, and a restart;
// Daly's first-order optimum (Future Generation Computer Systems 22, 2006) is the interval where none is given. Nodes
// that are being repaired are Poisson-distributed; while there are more of them than spares the job stands still.
// Errors (bad input): a number below zero; a machine that fails faster than it restarts.
Result<report::TrainBudget> budget_of(const report::TrainRun& run, double tokens_per_gpu, std::int64_t gpus,
                                      std::int64_t nodes);

}  // namespace weft::training
