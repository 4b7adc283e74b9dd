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
// A queue that was moved from takes nothing: as after close().
class Queue {
 public:
  explicit Queue(Communicator communicator);
  // As close().
  ~Queue();
  Queue(Queue&&) noexcept;
  Queue& operator=(Queue&&) noexcept;

  // A queued call. Copies stand for the same call. May be dropped; the call still runs. Thread: any. One that start()
  // did not return is empty: it is done, with kInvalidArgument.
  class Handle {
   public:
    bool done() const;
    // True: done. Returns at the latest after `timeout`; at once if that is negative.
    bool wait_for(std::chrono::milliseconds timeout) const;
    // Waits for the call and returns what it returned. Errors: as the call; kInvalidArgument: asked on the queue's own
    // thread before the call is done, which would never be; kInternal: `calls` or the callback threw, and what.
    Status wait() const;

   private:
    friend class Queue;
    struct State;
    std::shared_ptr<State> state_;
  };

  // Called on the queue's thread when its call is done, before wait() returns; may queue more. What it throws becomes
  // the handle's error; the queue goes on.
  using Callback = std::function<void(const Status&)>;

  // The request's buffers belong to the queue until the call is done; counts are copied. After close(): a handle that
  // is done, with kInvalidArgument.
  Handle start(const Request& request, Callback callback = {});
  Handle start(std::vector<Transfer> transfers, Callback callback = {});
  // Any calls of the communicator, as one. An empty function: a handle that is done, with kInvalidArgument.
  Handle start(std::function<Status(Communicator&)> calls, Callback callback = {});

  // Ends what runs, and so what is queued, on all ranks: see Communicator::abort.
  void abort();
  // Takes no more, lets all that is queued run, and ends the thread. Called by one of the queue's own callbacks, or by
  // a destructor there, it does not wait for the end.
  void close();

 private:
  struct Worker;
  std::shared_ptr<Worker> worker_;  // null: moved from
};

}  // namespace weft
