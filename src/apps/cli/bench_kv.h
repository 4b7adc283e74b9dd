#pragma once

#include "apps/cli/bench.h"

namespace weft::cli {

// `weft bench kv`: blocks of prompts into and out of a store in another process here, beside a Redis server if one is
// named. Errors (bad input): options that only collectives have, sizes, no Redis there.
Result<int> bench_kv(const BenchSpec& spec);

}  // namespace weft::cli
