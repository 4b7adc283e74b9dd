#pragma once

#include <span>

#include "compat/nccl/group.h"

namespace weft::compat::nccl {

// Puts operations of one communicator and stream on that stream as one: a collective, or transfers that move together.
// The stream waits until the communicator's thread has carried them out. Data goes through pinned memory of the host
// where that does not reach the device's. Errors: of the arguments, before anything was queued.
Status enqueue(std::span<const Operation> together);

}  // namespace weft::compat::nccl
