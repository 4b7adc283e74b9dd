#pragma once

#include "apps/cli/common.h"

namespace weft::cli {

// The question of `weft explain access` besides the machine and the size.
struct AccessSpec {
  std::int64_t reuse = 1, peer = 1;
  double fraction = 1;
  std::string cache = "0", work;  // a size, a time; empty: none
  std::string memory;             // of the host, which manages the array: a tier; empty: a peer's memory
  bool used() const {
    return reuse != 1 || peer != 1 || fraction != 1 || cache != "0" || !work.empty() || !memory.empty();
  }
};

// Pointer or get, and where the break-even lies; as text, and as weft.explain_access/1 in `json` if that names a file.
// Errors (bad input): a reuse, fraction or peer that cannot be; see cost::advise.
Result<int> explain_access(const AccessSpec& spec, const Machine& machine, Bytes bytes, const std::string& json);

}  // namespace weft::cli
