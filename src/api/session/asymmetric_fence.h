#pragma once

#include <atomic>

namespace weft::session {

// Order between two threads that each store and then load what the other stores, where one of them is seldom there:
// the frequent side pays nothing, the rare side makes every running thread of the process execute a full fence.
// Afterwards at least one of the two has seen the other's store. Where the kernel has no such barrier both sides fence.
class AsymmetricFence {
 public:
  static void frequent() {
    if (!expedited_) [[unlikely]]
      return std::atomic_thread_fence(std::memory_order_seq_cst);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // keeps the compiler, not the processor, from reordering
  }
  static void rare();

 private:
  static const bool expedited_;  // false until it is known
};

}  // namespace weft::session
