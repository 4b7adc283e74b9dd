#include "net/memory/survivors.h"

#include <random>
#include <thread>

namespace weft::net::memory {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRoundShift = 32;

std::uint64_t claim_of(std::uint64_t round, Rank rank) {
  return round << kRoundShift | static_cast<std::uint64_t>(rank + 1);
}

class Round {
 public:
  Round(const Segment& segment, Rank self, const std::function<bool(Rank)>& has_ended)
      : segment_(segment), self_(self), has_ended_(has_ended) {
    auto& asked = segment_.block(self_).asked;
    number_ = asked.load(std::memory_order_relaxed) + 1;
    asked.store(number_, std::memory_order_release);
  }

  bool decided() const { return segment_.header().decided.load(std::memory_order_acquire) >= number_; }

  // Whether every other rank takes part or has ended.
  bool complete() const {
    for (Rank r = 0; r < segment_.ranks(); ++r)
      if (r != self_ && !takes_part(r) && !has_ended_(r)) return false;
    return true;
  }

  // Becomes the decider, unless another is at it who still lives.
  bool may_decide() {
    auto& decider = segment_.header().decider;
    std::uint64_t current = decider.load(std::memory_order_acquire);
    if (current >> kRoundShift == number_) {
      const auto who = static_cast<Rank>(current & 0xffffffff) - 1;
      if (who != self_ && !has_ended_(who)) return false;
    }
    return decider.compare_exchange_strong(current, claim_of(number_, self_), std::memory_order_acq_rel);
  }

  void decide() {
    for (Rank r = 0; r < segment_.ranks(); ++r) {  // nobody reads this before it is decided
      const bool goes_on = r == self_ || (takes_part(r) && !has_ended_(r));
      segment_.block(r).admitted.store(goes_on ? number_ : 0, std::memory_order_relaxed);
    }
    std::random_device random;
    for (auto& word : segment_.header().secret)
      word.store(std::uint64_t{random()} << 32 | random(), std::memory_order_relaxed);
    segment_.header().decided.store(number_, std::memory_order_release);
  }

  Result<Survivors> outcome() const {
    Survivors survivors;
    for (Rank r = 0; r < segment_.ranks(); ++r)
      if (segment_.block(r).admitted.load(std::memory_order_relaxed) == number_) survivors.members.push_back(r);
    if (segment_.block(self_).admitted.load(std::memory_order_relaxed) != number_)
      return failure(Code::kAborted, Blame::kCommunicator, "rank {} came too late: the others go on without it", self_);
    for (const auto& word : segment_.header().secret)
      survivors.secret += fmt::format("{:016x}", word.load(std::memory_order_relaxed));
    return survivors;
  }

 private:
  bool takes_part(Rank r) const { return segment_.block(r).asked.load(std::memory_order_acquire) >= number_; }

  const Segment& segment_;
  Rank self_;
  const std::function<bool(Rank)>& has_ended_;
  std::uint64_t number_ = 0;
};

}  // namespace

Result<Survivors> agree_on_survivors(const Segment& segment, Rank self, const std::function<bool(Rank)>& has_ended,
                                     std::chrono::milliseconds timeout) {
  Round round(segment, self, has_ended);
  const auto deadline = Clock::now() + timeout;
  while (!round.decided()) {
    if ((round.complete() || Clock::now() >= deadline) && round.may_decide()) {
      round.decide();
      break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return round.outcome();
}

}  // namespace weft::net::memory
