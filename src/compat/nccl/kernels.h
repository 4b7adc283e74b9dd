#pragma once

#include "compat/nccl/group.h"

namespace weft::compat::nccl {

// The number of this process, which no other has.
std::uint64_t this_process();

// This rank's part of the kernels, if all ranks of `comm` are in this process and fit on their devices (decision 0083);
// null: operations go through host memory. All ranks call it together. Errors: of the communicator.
Result<std::unique_ptr<stream::Member>> kernels_of(Communicator& comm, int device_number);

// Makes a window of a rank's part, so that all ranks load and store what lies in it. All of them call it together;
// where one cannot, it is none for any. Requires: the ranks are processes that have kernels. Errors: of the
// communicator.
Status add_window(ncclComm& comm, void* memory, std::size_t bytes, bool symmetric);

// Queues operations of communicators that have kernels, in their streams: collectives, and then all messages between
// single ranks at the same time. Errors: see stream::start and start_exchanges. Requires: all messages of a
// communicator are in one stream.
Status start_kernels(std::span<const Operation> operations);

}  // namespace weft::compat::nccl
