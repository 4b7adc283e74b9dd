#pragma once

#include <span>

#include "api/stream/start.h"

namespace weft::stream {

// The same schedules by copy engines alone, which leaves the multiprocessors to others: all_gather, all_to_all,
// broadcast and all else that reduces nothing. Every move of a schedule becomes copies in its rank's stream, every
// signal an event, every wait the stream's wait for it; the host only queues them, so that streams can be captured.
// `calls`: one of every rank of a group, because an event must be recorded before a stream can wait for it.
// Errors: as start; bad input: a rank that is missing or called twice, ranks that call different things.
Status start_copies(std::span<const Call> calls);

}  // namespace weft::stream
