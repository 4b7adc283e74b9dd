#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace weft::cli {

struct WatchOptions {
  double interval = 2;     // seconds
  std::int64_t count = 0;  // intervals; 0: until it is interrupted
  std::string json;
};

// Prints what this machine's counters and its ranks' calls say, an interval at a time; weft.watch/1 lines as JSON.
// Returns whether anything was found. Errors (bad input): an interval or count that means nothing.
Result<bool> watch(const WatchOptions& options);

}  // namespace weft::cli
