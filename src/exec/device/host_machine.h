#pragma once

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "exec/device/endpoint.h"

namespace weft::exec::device {

// A meeting of some threads with a vote. Of three ballots one is open, one is being read, and the third is emptied by
// the thread that arrives at the open one: everybody has read it, or would not have come this far.
class Ballot {
 public:
  explicit Ballot(int threads) : meeting_(threads) {}

  // True if all say yes. `votes`: how many this thread has taken part in before.
  bool all(bool yes, unsigned votes) {
    against_[(votes + 1) % 3].store(0, std::memory_order_relaxed);
    if (!yes) against_[votes % 3].store(1, std::memory_order_relaxed);
    meeting_.arrive_and_wait();
    return against_[votes % 3].load(std::memory_order_relaxed) == 0;
  }

 private:
  std::barrier<> meeting_;
  std::array<std::atomic<int>, 3> against_{};
};

// The state that the threads of a block share.
struct HostBlock {
  static constexpr int kWarp = 8;

  explicit HostBlock(int count) : threads(count), everybody(count) {
    for (int first = 0; first < count; first += kWarp)
      warps.push_back(std::make_unique<Ballot>(std::min(kWarp, count - first)));
    firsts.resize(warps.size());
  }
  const int threads;
  Ballot everybody;
  std::vector<std::unique_ptr<Ballot>> warps;
  std::vector<std::uint64_t> firsts;  // of each warp: what its first lane says to the others
  Operands operands;
  Staged staged;
};

// The machine of endpoint.h made of the host's threads: a block is some of them, a warp eight. Formally without races,
// so that ThreadSanitizer can look at the kernel's text: words are relaxed atomics, a line's flag releases what the
// other lanes have stored.
class HostMachine {
 public:
  static constexpr int kWarp = HostBlock::kWarp;

  HostMachine(HostBlock& block, int thread) : block_(block), thread_(thread) {}

  int thread() const { return thread_; }
  int threads() const { return block_.threads; }
  Operands& operands() const { return block_.operands; }
  Staged& staged() const { return block_.staged; }

  void barrier() { all(true); }
  bool all(bool yes) { return block_.everybody.all(yes, votes_++); }
  bool warp_any(bool yes) { return !warp_all(!yes); }

  void warp_barrier() { warp_all(true); }
  std::uint64_t warp_first(std::uint64_t value) {
    std::uint64_t& first = block_.firsts[static_cast<std::size_t>(thread_ / kWarp)];
    if (thread_ % kWarp == 0) first = value;
    warp_all(true);
    const std::uint64_t said = first;
    warp_all(true);
    return said;
  }

  template <class Value>
  std::uint64_t load_acquire(const Value* from) const {
    return word(from).load(std::memory_order_acquire);
  }
  void store_release(std::uint64_t* to, std::uint64_t value) const { word(to).store(value, std::memory_order_release); }
  std::uint32_t load_stop(std::uint32_t* from) const { return std::atomic_ref(*from).load(std::memory_order_relaxed); }
  void store_stop(std::uint32_t* to, std::uint32_t value) const {
    std::atomic_ref(*to).store(value, std::memory_order_relaxed);
  }
  // Returns what was there.
  std::uint32_t compare_swap(std::uint32_t* at, std::uint32_t expected, std::uint32_t value) const {
    std::atomic_ref(*at).compare_exchange_strong(expected, value);
    return expected;
  }

  std::uint64_t fetch_add(std::uint64_t* at, std::uint64_t value) const { return word(at).fetch_add(value); }
  std::uint64_t compare_swap_word(std::uint64_t* at, std::uint64_t expected, std::uint64_t value) const {
    word(at).compare_exchange_strong(expected, value);
    return expected;
  }

  template <class Value>
  Value load(const Value* from) const {
    return *from;
  }
  template <class Value>
  void store(Value* to, Value value) const {
    *to = value;
  }
  Pack load_words(const Pack* from) const {
    return {word(&from->low).load(std::memory_order_relaxed), word(&from->high).load(std::memory_order_relaxed)};
  }
  void store_words(Pack* to, Pack value) const {
    word(&to->low).store(value.low, std::memory_order_relaxed);
    word(&to->high).store(value.high, std::memory_order_relaxed);
  }

  // One try of a warp to read its lines; true, for all lanes alike: all flags are there, and `value` is this lane's.
  bool load_line(const Pack* from, bool active, bool has_flag, std::uint64_t flag, Pack& value) {
    const bool waits = active && has_flag;
    if (!warp_all(!waits || word(&from->high).load(std::memory_order_acquire) == flag)) return false;
    if (active) value = load_words(from);
    return true;
  }
  void store_line(Pack* to, bool active, bool has_flag, Pack value) {
    if (active && !has_flag) store_words(to, value);
    warp_all(true);
    if (!active || !has_flag) return;
    word(&to->low).store(value.low, std::memory_order_relaxed);
    word(&to->high).store(value.high, std::memory_order_release);
  }

  std::int64_t clock_ns() const {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }
  void relax() const { std::this_thread::yield(); }

 private:
  static std::atomic_ref<std::uint64_t> word(const std::uint64_t* at) {
    return std::atomic_ref(*const_cast<std::uint64_t*>(at));
  }
  bool warp_all(bool yes) { return block_.warps[static_cast<std::size_t>(thread_ / kWarp)]->all(yes, warp_votes_++); }

  HostBlock& block_;
  const int thread_;
  unsigned votes_ = 0, warp_votes_ = 0;
};

}  // namespace weft::exec::device
