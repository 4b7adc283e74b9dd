#pragma once

#include <algorithm>

#include "base/units.h"

namespace weft::sim {

// What takes a rank's messages from the network, one after the other (NCCL's proxy is one thread). What that adds to a
// single message is part of its latency: only those that come faster than they can be taken wait. As posters share
// themselves equally, messages of all strands come at once although they were sent one after the other: so many are
// let through.
class Taker {
 public:
  // How long this message still waits, which keeps the taker busy for `each`.
  Duration take(Duration each, int at_once, Duration now) {
    const Duration start = std::max(now, free_);
    free_ = start + each;
    return std::max(Duration(), start - now - each * at_once);
  }

 private:
  Duration free_;
};

}  // namespace weft::sim
