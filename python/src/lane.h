#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "weft/queue.h"

namespace weft::python {

// A communicator whose calls run in the caller as long as nothing is queued, and otherwise, in their order, on a
// queue's thread, which exists from the first queued call on. Thread: one at a time; abort() from any.
class Lane {
 public:
  explicit Lane(Communicator communicator) : communicator_(std::move(communicator)) {}

  Communicator& communicator() { return communicator_; }

  // True: what was queued has ended, and calls may run in the caller.
  bool idle() {
    if (last_ && last_->done()) last_.reset();
    return !last_;
  }

  // The call runs on the queue's thread.
  Queue::Handle queue(std::function<Status(Communicator&)> call, Queue::Callback callback = {}) {
    if (!queue_) queue_ = std::make_unique<Queue>(communicator_);
    last_ = queue_->start(std::move(call), std::move(callback));
    return *last_;
  }

  void abort(std::string_view why = {}) { communicator_.abort(why); }
  // Waits for what is queued and ends the queue's thread.
  void close() {
    queue_.reset();
    last_.reset();
  }

 private:
  Communicator communicator_;
  std::unique_ptr<Queue> queue_;
  std::optional<Queue::Handle> last_;
};

}  // namespace weft::python
