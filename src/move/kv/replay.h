#pragma once

#include <string_view>

#include "move/kv/trace.h"
#include "weft/kv.h"

namespace weft::kv {

inline constexpr Policy kPolicies[] = {Policy::kLru, Policy::kLfu, Policy::kS3Fifo, Policy::kClairvoyant};
// Errors (bad input): there is none of this name.
Result<Policy> parse_policy(const std::string& text);

struct Hits {
  std::uint64_t requests = 0, blocks = 0;
  std::uint64_t hit_blocks = 0;    // of the longest prefix that is present
  std::uint64_t hit_requests = 0;  // at least one block
  double rate() const { return blocks == 0 ? 0 : static_cast<double>(hit_blocks) / static_cast<double>(blocks); }
};

// What a cache of `capacity` blocks would have served. A request counts the longest prefix of its blocks that is
// present; then all its blocks are used, the last first, so that a prefix outlives what follows it; then the cache is
// trimmed to its capacity. Requires: capacity > 0.
Hits replay(const Trace& trace, std::int64_t capacity, Policy policy);

}  // namespace weft::kv
