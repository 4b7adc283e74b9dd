#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "api/session/asymmetric_fence.h"

namespace weft::session {

// Keeps the calls of a communicator's owner thread and those of other threads apart (decision 0122).
class CallGuard {
 public:
  // Held by every public call of the owner thread. It costs no locked instruction, which would wait until the last
  // call's messages have crossed.
  class Turn {
   public:
    explicit Turn(CallGuard& guard) : guard_(guard) {
      for (;;) {
        guard_.inside_.store(true, std::memory_order_relaxed);
        AsymmetricFence::frequent();
        if (!guard_.visited_.load(std::memory_order_acquire)) [[likely]]
          return;
        guard_.inside_.store(false, std::memory_order_release);
        std::this_thread::sleep_for(kRetry);
      }
    }
    ~Turn() { guard_.inside_.store(false, std::memory_order_release); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    CallGuard& guard_;
  };
  // Entry of another thread, seldom: it waits until the turn is over, and turns wait until it has left.
  class Visit {
   public:
    explicit Visit(CallGuard& guard) : guard_(guard), alone_(guard.visits_) {
      guard_.visited_.store(true, std::memory_order_relaxed);
      AsymmetricFence::rare();
      while (guard_.inside_.load(std::memory_order_acquire)) std::this_thread::sleep_for(kRetry);
    }
    ~Visit() { guard_.visited_.store(false, std::memory_order_release); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    CallGuard& guard_;
    const std::lock_guard<std::mutex> alone_;
  };

 private:
  static constexpr std::chrono::microseconds kRetry{100};

  std::atomic<bool> inside_{false};   // a turn is being taken
  std::atomic<bool> visited_{false};  // a visitor waits, or is inside
  std::mutex visits_;                 // one at a time
};

}  // namespace weft::session
