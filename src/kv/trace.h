#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::kv {

// Requests, each with the blocks of its prompt in order; equal numbers are equal prefixes. Numbers count from 0.
struct Trace {
  std::vector<std::uint32_t> blocks;  // of all requests
  std::vector<std::uint64_t> ends;    // of each request's, in `blocks`
  std::uint32_t distinct = 0;

  std::size_t requests() const { return ends.size(); }
  std::span<const std::uint32_t> of(std::size_t request) const {
    const std::uint64_t begin = request == 0 ? 0 : ends[request - 1];
    return {blocks.data() + begin, ends[request] - begin};
  }
};

// Mooncake's form: a line per request, a JSON object with "hash_ids", one for each block of a prefix. Errors (bad
// input): names file and line.
Result<Trace> parse_trace(std::string_view text, const std::string& file);

}  // namespace weft::kv
