#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "net/memory/segment.h"

namespace weft::net::memory {

// Sleeping without lost wake-ups, and without a fence on the fast path.
//   Publisher:  publish (release store); if (peer.sleeping) ring.
//   Sleeper:    sleeping = 1; barrier on all cores; look once more; sleep while the doorbell is unchanged.
// The publisher's store and its load of `sleeping` may be reordered by the processor. The sleeper's expedited
// membarrier makes every running publisher execute a full fence in between: either it has seen sleeping == 1, or its
// store is visible to the sleeper's last look. Where the kernel has no such barrier, sleeps are cut to one millisecond.
class Doorbell {
 public:
  // Registers this process for the barrier. Cheap; call once per endpoint.
  Doorbell();

  // Publisher's side, after a release store. Inline: one load of a line that is almost never written.
  static void notify(RankBlock& peer) {
    std::atomic_signal_fence(std::memory_order_seq_cst);  // keeps the compiler, not the processor, from reordering
    if (peer.sleeping.load(std::memory_order_relaxed) != 0) [[unlikely]]
      ring(peer);
  }
  static void ring(RankBlock& peer);

  // Sleeper's side: announce, look again, then sleep or withdraw.
  void announce(RankBlock& self);
  void withdraw(RankBlock& self) { self.sleeping.store(0, std::memory_order_relaxed); }
  // Sleeps until rung or until `limit`; withdraws.
  void sleep(RankBlock& self, std::chrono::microseconds limit);

 private:
  bool expedited_ = false;
  std::uint32_t seen_ = 0;
};

}  // namespace weft::net::memory
