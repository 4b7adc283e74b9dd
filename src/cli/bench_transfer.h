#pragma once

#include "cli/bench.h"

namespace weft::cli {

// `weft bench transfer`: lists of blocks between the agents of two processes here, beside memcpy of the same blocks.
// Errors (bad input): options that only collectives have, sizes.
Result<int> bench_transfer(const BenchSpec& spec);

}  // namespace weft::cli
