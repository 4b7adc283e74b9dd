#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/memory/segment.h"

namespace weft::net::memory {

// Who goes on after a failure, as all of them know it.
struct Survivors {
  std::vector<Rank> members;  // in order; this rank is one
  std::string secret;         // of the members alone: letters and digits
};

// Agrees with all other ranks that call this, through the segment: everybody says that it is there; the first to see
// that all others are there or have ended decides, and writes down who is counted in; if it ends before it has, the
// next does. Those who are neither there nor ended within `timeout` are left out. Errors: kAborted: this rank came too
// late and was left out.
Result<Survivors> agree_on_survivors(const Segment& segment, Rank self, const std::function<bool(Rank)>& has_ended,
                                     std::chrono::milliseconds timeout);

}  // namespace weft::net::memory
