#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "array.h"
#include "weft/communicator.h"

namespace weft::python {

// An array whose memory has become registered where it is. Owns: the array's memory, which cannot move meanwhile.
struct RegisteredArray {
  Array array;
  RegisteredMemory memory;
};

// Those whose objects Python has dropped: calls that were started may use them, so that the communicator gives them
// back in its next call. Thread: any; clear() with Python's lock.
class DroppedArrays {
 public:
  void add(std::unique_ptr<RegisteredArray> dropped) {
    const std::lock_guard guard(mutex_);
    all_.push_back(std::move(dropped));
    any_ = true;
  }
  void clear() {
    if (!any_.load(std::memory_order_relaxed)) [[likely]]
      return;
    std::vector<std::unique_ptr<RegisteredArray>> all;
    {
      const std::lock_guard guard(mutex_);
      all.swap(all_);
      any_ = false;
    }
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> any_{false};
  std::vector<std::unique_ptr<RegisteredArray>> all_;
};

// What Communicator.register() returns. Thread: one at a time.
class Registration {
 public:
  Registration(std::unique_ptr<RegisteredArray> registered, std::shared_ptr<DroppedArrays> dropped)
      : registered_(std::move(registered)), dropped_(std::move(dropped)) {}
  Registration(Registration&&) = default;
  ~Registration() {
    if (registered_) dropped_->add(std::move(registered_));
  }

  bool shared() const { return registered_ && registered_->memory.shared(); }
  // Null: it has been released.
  std::unique_ptr<RegisteredArray>& registered() { return registered_; }

 private:
  std::unique_ptr<RegisteredArray> registered_;
  std::shared_ptr<DroppedArrays> dropped_;
};

}  // namespace weft::python
