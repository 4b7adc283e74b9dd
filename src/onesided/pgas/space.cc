#include "onesided/pgas/space.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace weft::pgas {

void Space::misuse(const char* call, const std::string& what) const {
  std::fflush(stdout);
  fmt::print(stderr, "weft: PE {}: {}: {}\n", rank_, call, what);
  std::abort();
}

void Space::no_such_rank(const char* call, Rank rank) const {
  misuse(call, fmt::format("PE {} is outside 0 … {}", rank, ranks_ - 1));
}

void Space::not_symmetric(const char* call, const void* address, Bytes length, Rank rank) const {
  for (const Region& region : regions_)
    if (region.holds(address, 0))
      misuse(call, fmt::format("{} bytes at {} for PE {} reach beyond the end of symmetric memory, {}", length, address,
                               rank, static_cast<void*>(region.own + region.bytes)));
  misuse(call, fmt::format("address {} ({} bytes, for PE {}) is not symmetric", address, length, rank));
}

}  // namespace weft::pgas
