#pragma once

#include <span>

#include "api/stream/member.h"

namespace weft::stream {

// One rank's part in a collective.
struct Call {
  Member* member = nullptr;
  Request request = {};
  Stream stream = nullptr;
  const Prepared** prepared = nullptr;  // not null: where the caller learns as what it runs
  const void* scalar = nullptr;         // of a premultiplied sum, instead of the request's: an element in device memory
};

// Queues the calls in their streams; nothing waits on the host. Several calls of one rank follow each other. Ranks of
// one device whose calls are in one stream share one launch; all others have one each.
// Errors: of the arguments, before anything was queued; bad input: ranks whose calls share a stream must call the same.
Status start(std::span<const Call> calls);

}  // namespace weft::stream
