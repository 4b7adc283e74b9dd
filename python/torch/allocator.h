#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "../src/registered_pool.h"

namespace weft::torch_adapter {

// torch's allocator of CPU tensors while it is switched on: they lie in a communicator's registered memory, or, where
// that is used up and for small ones, in what torch's own allocator gives. Tensors may outlive the communicator and the
// time for which it is on, so that there is one for the whole process, which never ends. Thread: any.
class RegisteredAllocator final : public at::Allocator {
 public:
  static RegisteredAllocator& of_process() {
    static auto* const one = new RegisteredAllocator;
    return *one;
  }

  // Tensors of all threads are of this communicator until off(), or until a later on() that is not off yet.
  // Returns: what off() wants.
  int on(const std::shared_ptr<python::Lane>& lane) {
    const std::lock_guard guard(mutex_);
    std::erase_if(pools_, [](const Known& k) { return k.lane.expired() && k.pool->is_idle(); });
    auto known = std::find_if(pools_.begin(), pools_.end(), [&](const Known& k) { return k.lane.lock() == lane; });
    if (known == pools_.end())
      known = pools_.insert(pools_.end(), {lane, std::make_shared<python::RegisteredPool>(lane)});
    if (users_.empty()) c10::SetAllocator(c10::kCPU, this);
    users_.emplace_back(++last_, known->pool);
    return last_;
  }
  void off(int user) {
    const std::lock_guard guard(mutex_);
    std::erase_if(users_, [&](const auto& u) { return u.first == user; });
    if (users_.empty()) c10::SetAllocator(c10::kCPU, plain_);
  }

  at::DataPtr allocate(std::size_t bytes) override {
    if (bytes >= python::RegisteredPool::kSmallest)
      if (void* const block = take(bytes)) return {block, block, &give_back, at::Device(at::kCPU)};
    return plain_->allocate(bytes);
  }
  at::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  struct Known {
    std::weak_ptr<python::Lane> lane;
    std::shared_ptr<python::RegisteredPool> pool;
  };

  RegisteredAllocator() : plain_(c10::GetAllocator(c10::kCPU)) {}

  // Null: it is off, or there is no block.
  void* take(std::size_t bytes) {
    if (getpid() != owner_) return nullptr;  // a child of fork(): a thread of its parent may have had the lock
    const std::lock_guard guard(mutex_);
    return users_.empty() ? nullptr : users_.back().second->take(bytes);
  }
  static void give_back(void* block) {
    auto& self = of_process();
    std::unique_lock guard(self.mutex_, std::defer_lock);
    if (getpid() == self.owner_)
      guard.lock();
    else if (!guard.try_lock())
      return;  // lost to the child: nobody opens this lock
    for (const Known& k : self.pools_)
      if (k.pool->give_back(block)) return;
    guard.unlock();
    self.plain_->raw_deallocate(block);
  }

  at::Allocator* const plain_;
  const pid_t owner_ = getpid();
  std::mutex mutex_;  // the rest
  std::vector<Known> pools_;
  std::vector<std::pair<int, std::shared_ptr<python::RegisteredPool>>> users_;
  int last_ = 0;
};

}  // namespace weft::torch_adapter
