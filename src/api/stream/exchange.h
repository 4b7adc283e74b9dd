#pragma once

#include <span>
#include <vector>

#include "api/stream/member.h"

namespace weft::stream {

// What one rank sends and receives at the same time.
struct Exchange {
  Member* member = nullptr;
  std::vector<Transfer> transfers = {};
  Stream stream = nullptr;
};

// Queues the exchanges in their streams, behind what the ranks queued before; nothing waits on the host. All transfers
// of one exchange run side by side, in whatever order they are given; those of one direction with one peer are taken in
// order. What a rank sends itself is copied. One launch serves ranks of one device that share a stream.
// Errors: of the arguments, before anything was queued; bad input: a rank that is there twice; kUnsupported: more
// messages in one launch than it takes.
Status start_exchanges(std::span<const Exchange> exchanges);

}  // namespace weft::stream
