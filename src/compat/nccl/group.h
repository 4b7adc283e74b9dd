#pragma once

#include <future>
#include <optional>
#include <vector>

#include "compat/nccl/library.h"

// Calls between ncclGroupStart and ncclGroupEnd of a thread.
namespace weft::compat::nccl {

// A collective, or a message to or from a peer, on a stream.
struct Operation {
  ncclComm* comm = nullptr;
  net::cuda::Stream stream = nullptr;
  Request request = {};
  std::optional<Transfer> transfer = {};  // instead of the request
  std::size_t in_bytes = 0, out_bytes = 0;
  std::optional<Premultiplied> sum = {};
  void* launch_event = nullptr;        // of the application's, recorded before it
  std::function<Status()> alone = {};  // instead of both: on the communicator's thread, in order with the stream
  bool waits = false;                  // … for peers: of a group's, behind those that do not
};

bool in_group();
void start_group();
// Errors: the first of the calls between, whose operations are not begun then; of operations, as they are begun.
ncclResult_t end_group();
// The same, but operations are only timed by the model, in microseconds.
ncclResult_t end_group_timed(float& microseconds);
// Ends the group without its operations.
void drop_group();

// The result of a call that may be part of a group. An error stays with the group until its end, so that a program that
// looks at no other result learns of it.
ncclResult_t in_group(ncclResult_t result);
// As refuse().
template <class... Args>
ncclResult_t refuse_in_group(ncclResult_t result, fmt::format_string<Args...> format, Args&&... args) {
  return in_group(refuse(result, format, std::forward<Args>(args)...));
}

// Now, or when the group ends. Errors: of the arguments at once, others with the communicator.
ncclResult_t submit(Operation operation);
// What all ranks do together besides operations (init, split, shrink): a call that may wait for peers, whose result is
// waited for now, or when the group ends.
ncclResult_t submit(std::future<Status> made);

}  // namespace weft::compat::nccl
