#pragma once

#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "lane.h"

namespace weft::python {

// Registered memory of one communicator for an allocator of NumPy or torch. Blocks that were given back are kept, for
// the next array of that size has their pages, until the communicator ends or has no other memory left. Blocks in use
// keep the communicator's memory, but not the communicator. A child of fork() gets no blocks: it would write where its
// parent does. Thread: any. Unit: bytes.
class RegisteredPool {
 public:
  static constexpr std::size_t kSmallest = 4096;  // a smaller message is copied anyway

  explicit RegisteredPool(std::weak_ptr<Lane> lane) : lane_(std::move(lane)) {}

  // Aligned to 64 bytes. Null: the block is small, the communicator has ended, or it has no memory left.
  void* take(std::size_t bytes) {
    if (bytes < kSmallest || bytes > kMost || !is_owner()) return nullptr;
    const std::size_t size = rounded(bytes);
    const std::lock_guard guard(mutex_);
    if (const auto found = kept_.find(size); found != kept_.end()) return use(std::move(kept_.extract(found).mapped()));
    const auto lane = lane_.lock();
    if (!lane) return nullptr;
    auto made = lane->communicator().allocate(size);
    if (!made && !kept_.empty()) {
      kept_.clear();
      made = lane->communicator().allocate(size);
    }
    return made ? use(std::move(*made)) : nullptr;
  }

  // False: this is no block of the pool. A child of fork() loses a block that is given back while a thread of its
  // parent had the lock, which nobody opens any more.
  bool give_back(void* block) {
    std::multimap<std::size_t, Memory> ended;  // outside of the lock
    std::unique_lock guard(mutex_, std::defer_lock);
    if (is_owner())
      guard.lock();
    else if (!guard.try_lock())
      return true;
    auto used = used_.extract(block);
    if (used.empty()) return false;
    const std::size_t size = used.mapped().size();
    kept_.emplace(size, std::move(used.mapped()));
    if (lane_.expired()) ended.swap(kept_);
    return true;
  }

  // False: this process is a child of the one that made the pool.
  bool is_owner() const { return getpid() == owner_; }

  // What the block has room for; nothing: it is none of the pool.
  std::optional<std::size_t> room(void* block) const {
    const std::lock_guard guard(mutex_);
    const auto used = used_.find(block);
    if (used == used_.end()) return std::nullopt;
    return used->second.size();
  }

  // No block is in use.
  bool is_idle() const {
    const std::lock_guard guard(mutex_);
    return used_.empty();
  }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 46;

  // At most an eighth is lost, and arrays of about the same size share blocks.
  static std::size_t rounded(std::size_t bytes) {
    std::size_t step = kSmallest;
    while (step * 16 <= bytes) step *= 2;
    return (bytes + step - 1) / step * step;
  }

  void* use(Memory memory) {
    void* const at = memory.data();
    used_.emplace(at, std::move(memory));
    return at;
  }

  const std::weak_ptr<Lane> lane_;
  const pid_t owner_ = getpid();
  mutable std::mutex mutex_;
  std::unordered_map<void*, Memory> used_;   // by mutex_
  std::multimap<std::size_t, Memory> kept_;  // by mutex_; by size
};

}  // namespace weft::python
