#pragma once

#include <string>

#include "apps/cli/bench.h"

namespace weft::cli {

// What only this bench is asked.
struct KvSpec {
  std::string block;  // bytes of a block; empty: by the model, or 2 MiB
  std::string model;  // a config.json
  std::string redis;  // a server; empty: none
};

// `weft bench kv`: blocks of prompts into and out of a store in another process here, beside a Redis server if one is
// named. Errors (bad input): sizes, no Redis there.
Result<int> bench_kv(const BenchSpec& spec, const KvSpec& asked);

}  // namespace weft::cli
