#pragma once

#include <chrono>
#include <future>

#include "weft/result.h"

namespace weft {

// A result that a thread of its own is still working on. Thread: one at a time.
// Dropping it waits for that thread, which gives up at the latest when its timeout has passed.
template <class T>
class Pending {
 public:
  explicit Pending(std::future<Result<T>> future) : future_(std::move(future)) {}

  // True also where there is nothing to wait for: it was taken, or moved from.
  bool ready() const {
    return !future_.valid() || future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  // Waits for it. Errors: those of the result; kInvalidArgument: it was taken already, or moved from.
  Result<T> take() {
    if (future_.valid()) return future_.get();
    return tl::make_unexpected(
        Error{Code::kInvalidArgument, Blame::kInput, "the result was taken already, or its object was moved from"});
  }

 private:
  std::future<Result<T>> future_;
};

}  // namespace weft
