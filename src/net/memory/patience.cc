#include "net/memory/patience.h"

#include <sched.h>

namespace weft::net::memory {
namespace {

constexpr std::chrono::milliseconds kExamineEvery{20};

}  // namespace

Patience::Patience(Segment segment, Rank rank, Limits limits, std::function<Rank()> find_dead)
    : segment_(segment), rank_(rank), limits_(limits), find_dead_(std::move(find_dead)) {}

void Patience::restart() {
  looks_ = 0;
  since_ = {};
  suspect_ = -1;
  if (announced_) doorbell_.withdraw(segment_.block(rank_));
  announced_ = false;
}

Status Patience::look(const std::function<Rank()>& waiting_for) {
  looks_ = limits_.spins;  // stays out of the fast path until something moves
  const auto now = Clock::now();
  if (since_ == Clock::time_point{}) since_ = examined_ = now;
  if (now - examined_ < kExamineEvery && suspect_ < 0) return {};
  examined_ = now;
  return examine(now, waiting_for);
}

Status Patience::pause_slowly(const std::function<Rank()>& waiting_for) {
  WEFT_CHECK(look(waiting_for));
  const auto now = Clock::now();
  if (now - since_ < limits_.yielding) {
    sched_yield();
  } else if (!announced_) {
    doorbell_.announce(segment_.block(rank_));  // then the caller looks once more
    announced_ = true;
  } else {
    doorbell_.sleep(segment_.block(rank_), std::chrono::duration_cast<std::chrono::microseconds>(kExamineEvery));
    announced_ = false;
  }
  return {};
}

Status Patience::examine(Clock::time_point now, const std::function<Rank()>& waiting_for) {
  if (const std::uint32_t broken = segment_.header().broken.load(std::memory_order_acquire); broken != 0)
    return failure(Code::kAborted, Blame::kCommunicator, "the communicator is broken: rank {} failed", broken - 1);
  if (const Rank dead = find_dead_(); dead >= 0) {
    if (suspect_ != dead) {
      suspect_ = dead;
      return {};
    }
    mark_broken(dead);
    return failure(Code::kPeerDied, Blame::kCommunicator, "rank {} (process {}) has ended", dead,
                   segment_.block(dead).pid.load(std::memory_order_relaxed));
  }
  if (now - since_ >= limits_.timeout) {
    const Rank late = waiting_for();
    mark_broken(late);
    return failure(Code::kTimeout, Blame::kCommunicator, "waited {} ms for rank {} (process {})", limits_.timeout.count(), late,
                   segment_.block(late).pid.load(std::memory_order_relaxed));
  }
  return {};
}

void Patience::mark_broken(Rank culprit) {
  std::uint32_t none = 0;
  segment_.header().broken.compare_exchange_strong(none, static_cast<std::uint32_t>(culprit) + 1);
  for (Rank r = 0; r < segment_.ranks(); ++r)
    if (r != rank_) Doorbell::ring(segment_.block(r));
}

}  // namespace weft::net::memory
