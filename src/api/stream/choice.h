#pragma once

#include "api/session/session.h"

namespace weft::stream {

// The plan for kernels with these capabilities, or, with `copies`, for copy engines. A rule, not yet measured on a GPU
// (decision 0083): loads and stores where the collective has an algorithm of them, all_reduces of a few KiB in one shot
// of lines, what remains by messages. Errors (bad input): something is forced that does not exist; kUnsupported:
// nothing serves.
Result<schedule::Plan> choose(const schedule::Task& task, const Request& request, const protocol::Capabilities& can);
// The same where only copies are made: no reductions, no messages.
Result<schedule::Plan> choose_copies(const schedule::Task& task, const Request& request);

}  // namespace weft::stream
