#include "weft/interrupt.h"

#include <utility>

namespace weft {

thread_local Interruptible* Interruptible::current_ = nullptr;

Interruptible::Interruptible(std::function<bool()> asked)
    : outer_(std::exchange(current_, this)), asked_(std::move(asked)) {}

Interruptible::~Interruptible() { current_ = outer_; }

bool Interruptible::ask() {
  const auto now = std::chrono::steady_clock::now();
  if (over_ || !asked_ || now < next_) return over_;
  next_ = now + std::chrono::milliseconds(20);
  try {
    over_ = asked_();
  } catch (...) {
    over_ = true;
  }
  return over_;
}

}  // namespace weft
