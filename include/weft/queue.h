#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "weft/communicator.h"

namespace weft {

// A communicator's calls on a thread of their own, one after the other in the order in which they were queued, so that
// they move on while the caller computes. The thread sleeps while nothing is queued.
// Thread: any; calls that several threads queue run in the order in which they got there, which all ranks need alike.
// Owns: the communicator, which nobody else may call meanwhile, but for abort().
class Queue {
 public:
  explicit Queue(Communicator communicator);
  // As close().
  ~Queue();
  Queue(Queue&&) noexcept;
  Queue& operator=(Queue&&) noexcept;

  // A queued call. Copies stand for the same call. May be dropped; the call still runs. Thread: any.
  class Handle {
   public:
    bool done() const;
    // True: done. Returns at the latest after `timeout`.
    bool wait_for(std::chrono::milliseconds timeout) const;
    // Waits for the call and returns what it returned. Errors: as the call; kInvalidArgument: asked on the queue's own
    // thread before the call is done, which would never be.
    Status wait() const;

   private:
    friend class Queue;
    struct State;
    std::shared_ptr<State> state_;
  };

  // Called on the queue's thread when its call is done, before wait() returns; may queue more.
  using Callback = std::function<void(const Status&)>;

  // The request's buffers belong to the queue until the call is done; counts are copied. After close(): a handle that
  // is done, with kInvalidArgument.
  Handle start(const Request& request, Callback callback = {});
  Handle start(std::vector<Transfer> transfers, Callback callback = {});
  // Any calls of the communicator, as one.
  Handle start(std::function<Status(Communicator&)> calls, Callback callback = {});

  // Ends what runs, and so what is queued, on all ranks: see Communicator::abort.
  void abort();
  // Takes no more, lets all that is queued run, and ends the thread. Callbacks of it may not call this.
  void close();

 private:
  struct Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace weft
