#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "net/memory/segment.h"

namespace weft::net::memory {

// How a sender stores large messages: plainly, into its own caches, or past them to memory (streamed_copy.h). Which is
// faster depends on where the two cores lie, fivefold either way. Processes that are not bound move, and so do the
// cores of a virtual machine, within seconds; so a sender tries the other way now and then (decision 0265):
//   the receiver times its loads of kTimed messages; then the other way is taken for a whole ring, whose lines are then
//   where they always are with this way, and kTimed more are timed. The way whose stores and loads together took less
//   time per byte goes on. Of each the least counts: an interruption only adds.
// Between two trials kTimed of every kWatched messages are timed as they are. Where they take much longer than in the
// last trial, the cores have moved, and the next trial comes at once. One per connection, the sender's. Thread: the
// endpoint's.
class StoreChoice {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint64_t kTimed = TimedLoads::kMost;
  // Messages between two trials, by how far apart the two ways were. A trial of 2 MiB that takes five times as long,
  // every 16,384 messages of 32 KiB, costs 2 %.
  static constexpr std::uint64_t kSoon = 1024, kLate = 16384;
  // One is made sooner, if as many as kSoon have passed, after this time: large messages take long to be kLate.
  static constexpr std::chrono::milliseconds kLong{250};
  static constexpr std::uint64_t kWatched = 64;
  static constexpr double kMuchLonger = 1.5;
  static constexpr std::uint64_t kPatience = 64;  // messages
  static constexpr double kFarApart = 1.2, kBetter = 0.9;

  bool streams() const { return streams_; }
  // What is done until the first trial.
  void begin(bool streams) {
    if (!begun_) streams_ = streams;
    begun_ = true;
  }

  // Before a large message `number` is stored: does its store have to be timed?
  bool times(std::uint64_t number, std::size_t ring_bytes, Connection& out) {
    if (state_ == State::kSettled) [[likely]] {
      if (++messages_ % kWatched != 0) return false;
      state_ = due() ? State::kTimesThis : State::kWatches;
      open(number, out);
    }
    return go_on(number, ring_bytes, out);
  }
  // The store of a message that times() asked for took that long.
  void stored(Clock::duration took, std::size_t bytes) { least_ = std::min(least_, per_byte(took, bytes)); }
  // A large message has been stored.
  void passed(std::size_t bytes) { since_ += bytes; }

  // Picoseconds per byte, at least 1.
  static std::uint32_t per_byte(Clock::duration took, std::size_t bytes) {
    const auto ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(took).count());
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(ns * 1000 / bytes, 1, 1 << 30));
  }

 private:
  enum class State { kSettled, kWatches, kTimesThis, kGoesOther, kTimesOther, kAwaits };

  bool due() const { return messages_ >= wait_ || (messages_ >= kSoon && Clock::now() - decided_ >= kLong); }
  void open(std::uint64_t number, Connection& out);
  // The window of a watch is over: is it time for a trial?
  bool watched(std::uint64_t in_window, const Connection& out);
  bool go_on(std::uint64_t number, std::size_t ring_bytes, Connection& out);
  // What the messages of the window took that was opened last, stores and loads; 0: not known.
  std::uint32_t took(const Connection& out) const;
  void give_up();
  void decide(std::uint32_t other);
  void settle();

  State state_ = State::kSettled;
  bool begun_ = false, streams_ = true;
  std::uint64_t messages_ = 0, wait_ = kSoon;  // since the last trial, and how many there are between two
  Clock::time_point decided_{};                // the end of the last trial
  std::uint32_t settled_ = 0;                  // what the way that goes on took in it; 0: there was none
  bool by_watch_ = false;                      // a watch has started this trial
  std::uint64_t in_vain_ = kWatched;           // messages after a trial before which a watch starts none
  std::uint64_t first_ = 0;                    // of the window's messages
  std::size_t since_ = 0;                      // bytes stored the other way
  std::uint32_t least_ = 0;                    // of the stores of the window, per byte
  std::uint32_t this_way_ = 0;                 // what the way of before took
};

}  // namespace weft::net::memory
