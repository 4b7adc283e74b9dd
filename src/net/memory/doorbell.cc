#include "net/memory/doorbell.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace weft::net::memory {
namespace {

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  // Not FUTEX_PRIVATE: ranks may be processes.
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

// A process registers once, and its children with it.
Doorbell::Doorbell() {
  static const bool registered = [] {
    const long supported = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    return supported > 0 && (supported & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0 &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  }();
  expedited_ = registered;
}

void Doorbell::ring(RankBlock& peer) {
  peer.doorbell.fetch_add(1, std::memory_order_release);
  futex(peer.doorbell, FUTEX_WAKE, INT_MAX, nullptr);
}

void Doorbell::announce(RankBlock& self) {
  seen_ = self.doorbell.load(std::memory_order_acquire);
  self.sleeping.store(1, std::memory_order_seq_cst);
  if (expedited_) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

void Doorbell::sleep(RankBlock& self, std::chrono::microseconds limit) {
  if (!expedited_) limit = std::min(limit, std::chrono::microseconds(1000));
  const timespec timeout{static_cast<time_t>(limit.count() / 1000000),
                         static_cast<long>(limit.count() % 1000000 * 1000)};
  futex(self.doorbell, FUTEX_WAIT, seen_, &timeout);
  withdraw(self);
}

}  // namespace weft::net::memory
