#pragma once

#include "compat/nccl/group.h"

namespace weft::compat::nccl {

// This rank's part of the kernels, if all ranks of `comm` are in this process and fit on their devices (decision 0083);
// null: operations go through host memory. All ranks call it together. Errors: of the communicator.
Result<std::unique_ptr<stream::Member>> kernels_of(Communicator& comm, int device_number);

// Is this operation one of kernels? Messages between single ranks go through host memory.
inline bool by_kernels(const Operation& o) { return o.comm->kernels && !o.transfer; }
// Queues such operations, in their streams. Errors: see stream::start.
Status start_kernels(std::span<const Operation> operations);

}  // namespace weft::compat::nccl
