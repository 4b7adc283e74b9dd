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

  bool ready() const { return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  // Waits for it. Requires: not taken yet.
  Result<T> take() { return future_.get(); }

 private:
  std::future<Result<T>> future_;
};

}  // namespace weft
