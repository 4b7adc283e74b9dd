#include "net/memory/store_choice.h"

#include <limits>

namespace weft::net::memory {

void StoreChoice::open(std::uint64_t number, Connection& out) {
  first_ = number;
  least_ = std::numeric_limits<std::uint32_t>::max();
  // Ordered before the message's flag, which its receiver loads first.
  out.tail.timed_from.store(number, std::memory_order_relaxed);
}

std::uint32_t StoreChoice::took(const Connection& out) const {
  std::uint32_t loads = std::numeric_limits<std::uint32_t>::max();
  for (std::uint64_t i = 0; i < kTimed; ++i) {
    const std::uint64_t entry = out.loads.of[i].load(std::memory_order_relaxed);
    if (static_cast<std::uint32_t>(entry >> 32) != static_cast<std::uint32_t>(first_ + i)) return 0;
    loads = std::min(loads, static_cast<std::uint32_t>(entry));
  }
  return loads + least_;
}

// Small messages came in between, or the receiver did not time its loads: another time.
void StoreChoice::give_up() {
  if (state_ == State::kGoesOther || state_ == State::kTimesOther) streams_ = !streams_;
  settle();
}

void StoreChoice::settle() {
  state_ = State::kSettled;
  by_watch_ = false;
  messages_ = 0;
  decided_ = Clock::now();
}

void StoreChoice::decide(std::uint32_t other) {
  const double ratio = static_cast<double>(other) / static_cast<double>(this_way_);
  const bool changes = ratio < kBetter;
  if (changes) streams_ = !streams_;
  settled_ = changes ? other : this_way_;
  // Trials that a watch starts in vain become rare, and less rare with every other one.
  in_vain_ = changes ? kWatched : by_watch_ ? std::min(2 * in_vain_, kLate) : std::max(in_vain_ / 2, kWatched);
  wait_ = ratio > kFarApart || ratio < 1 / kFarApart ? kLate : kSoon;
  settle();
}

bool StoreChoice::watched(std::uint64_t in_window, const Connection& out) {
  if (out.head.value.load(std::memory_order_acquire) < first_ + kTimed - 1) return false;
  const std::uint32_t now = took(out);
  if (now == 0 && in_window <= kPatience) return false;
  state_ = State::kSettled;
  return settled_ != 0 && now > kMuchLonger * settled_ && messages_ >= in_vain_;
}

// Before message `number`. A window is of messages that follow each other.
bool StoreChoice::go_on(std::uint64_t number, std::size_t ring_bytes, Connection& out) {
  const std::uint64_t in_window = number - first_;
  switch (state_) {
    case State::kSettled:
      return false;
    case State::kWatches:
      if (in_window < kTimed) return true;
      if (!watched(in_window, out)) return false;
      by_watch_ = true;
      state_ = State::kTimesThis;
      open(number, out);
      return true;
    case State::kTimesThis:
      if (in_window < kTimed) return true;
      state_ = State::kGoesOther;
      streams_ = !streams_;
      since_ = 0;
      return false;
    case State::kGoesOther: {
      if (since_ < ring_bytes) return false;
      // All of the first window have been taken: the ring has gone round.
      if (this_way_ = took(out); this_way_ == 0) return give_up(), false;
      state_ = State::kTimesOther;
      open(number, out);
      return true;
    }
    case State::kTimesOther:
      if (in_window < kTimed) return true;
      state_ = State::kAwaits;
      streams_ = !streams_;
      [[fallthrough]];
    case State::kAwaits:
      if (out.head.value.load(std::memory_order_acquire) < first_ + kTimed - 1) return false;
      const std::uint32_t other = took(out);
      if (other > 0)
        decide(other);
      else if (in_window > kPatience)  // what the last load took comes after the count of messages taken
        give_up();
      return false;
  }
  return false;
}

}  // namespace weft::net::memory
