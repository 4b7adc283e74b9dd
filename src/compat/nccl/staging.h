#pragma once

#include <span>

#include "compat/nccl/group.h"

namespace weft::compat::nccl {

// Operations of one communicator and stream that move together, with the pinned memory that they need.
struct Staged;
using StagedOperations = std::shared_ptr<std::vector<Staged>>;

// Takes that memory: before anything is queued, as what allocates may have to wait until streams come to an end, of
// which some may wait for these operations. Errors: of the arguments.
Result<StagedOperations> stage(std::span<const Operation> together);

// Puts them on their stream as one: collectives, of which small ones become one call, or transfers. The stream waits
// until the communicator's thread has carried them out. Data goes through pinned memory of the host where that does not
// reach the device's.
Status enqueue(const StagedOperations& staged);

// Puts work of the communicator's thread on a stream, which waits until it is done. Errors are the communicator's.
Status enqueue(ncclComm& comm, net::cuda::Stream stream, std::function<Status()> work);

}  // namespace weft::compat::nccl
