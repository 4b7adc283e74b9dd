#pragma once

#include <chrono>
#include <functional>

namespace weft {

// While it lives, waits of this thread that belong to no communicator yet ask the function about every 20 ms, and end
// with kAborted once it says true or throws: Communicator::from_environment and connect, grow, World::from_environment.
// Calls of a communicator ask what set_interrupt() gave them, or this where that is nothing. Scopes nest; the innermost
// counts. Thread: the one that made it.
class Interruptible {
 public:
  explicit Interruptible(std::function<bool()> asked);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  // Is the wait of this thread to end? False without a scope.
  static bool asked() { return current_ != nullptr && current_->ask(); }

 private:
  bool ask();
  static thread_local Interruptible* current_;

  Interruptible* const outer_;
  std::function<bool()> asked_;
  std::chrono::steady_clock::time_point next_{};
  bool over_ = false;
};

}  // namespace weft
