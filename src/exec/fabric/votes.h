#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "weft/types.h"

namespace weft::fabric {

// Whether calls of a shape touch the callers' memory directly. That works only if every rank passes memory that its
// peers reach, or copies through such memory, and all ranks must do the same in a call, but a rank knows its own memory
// only. So the calls of a shape are counted, on all ranks alike; window w has the calls 2^w … 2^(w+1) - 1, the first is
// number 1. A rank whose memory is reached in the first of its calls in a window, and was in most calls of the window
// before, votes there. The first rank that begins window w + 1 decides it by a compare-and-swap: direct if all ranks
// have voted in window w, staged otherwise. Decisions stay, so that ranks which come later take the same; nobody waits.
// (Window 0 is staged.)
//
// Two shapes may share votes: then they share decisions, which are right for any memory.
// Where: in memory that all ranks share; zero at first. Thread: any.
struct alignas(64) Votes {
  static constexpr int kWindows = 24;  // the last one never ends

  static int window_of(std::uint64_t call) {
    return std::min(static_cast<int>(std::bit_width(call)) - 1, kWindows - 1);
  }
  // The first call of the next window.
  static std::uint64_t end_of(int window) {
    return window == kWindows - 1 ? ~std::uint64_t{0} : std::uint64_t{2} << window;
  }

  // Once per rank and window.
  void vote(int window) { for_direct[window].fetch_add(1, std::memory_order_acq_rel); }

  bool decide(int window, Rank ranks) {
    if (window == 0) return false;
    const std::uint64_t decided = std::uint64_t{1} << window, direct = decided << 32;
    std::uint64_t known = decisions.load(std::memory_order_acquire);
    while ((known & decided) == 0) {
      const bool all = for_direct[window - 1].load(std::memory_order_acquire) == ranks;
      const std::uint64_t wanted = known | decided | (all ? direct : 0);
      if (decisions.compare_exchange_weak(known, wanted, std::memory_order_acq_rel)) known = wanted;
    }
    return (known & direct) != 0;
  }

  std::atomic<std::uint64_t> decisions;             // bit w: window w is decided; bit 32 + w: it is direct
  std::atomic<std::uint16_t> for_direct[kWindows];  // votes; of more than 65,535 ranks they never are all
};
static_assert(sizeof(Votes) == 64 && std::atomic<std::uint16_t>::is_always_lock_free);

}  // namespace weft::fabric
