#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace weft::schedule::symbolic {

// A vector clock: at(p) is how much of strand p's past is ordered before. Copies share what they know of other strands
// until one of them learns more, so that a strand that sends to a thousand peers keeps one copy of it.
class Clock {
 public:
  Clock() = default;  // knows of nothing
  // `own`: the strand whose clock it is; none for a clock that only joins others.
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  Clock(std::size_t strands, std::size_t own) : known_(std::make_shared<Known>(strands, 0)), own_(own) {}

  std::uint32_t at(std::size_t strand) const { return strand == own_ ? time_ : (*known_)[strand]; }
  // The strand's first moment, before its first step.
  void enter() { time_ = 1; }
  // The strand makes a step.
  void tick() { ++time_, ++depth_; }
  // Steps of the longest chain of steps, each ordered after the one before, that ends here.
  std::int64_t depth() const { return depth_; }
  // Requires: this clock is not the default one.
  void join(const Clock& other) {
    if (!other.known_) return;
    depth_ = std::max(depth_, other.depth_);
    const bool other_knows = other.own_ != kNone && other.own_ != own_ && (*known_)[other.own_] < other.time_;
    if (known_ == other.known_ && !other_knows) return;
    if (known_.use_count() > 1) known_ = std::make_shared<Known>(*known_);
    Known& mine = *known_;
    if (const Known& theirs = *other.known_; &theirs != &mine)
      for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = std::max(mine[i], theirs[i]);
    if (other_knows) mine[other.own_] = std::max(mine[other.own_], other.time_);
  }

 private:
  using Known = std::vector<std::uint32_t>;
  std::shared_ptr<Known> known_;  // of the other strands
  std::size_t own_ = kNone;
  std::uint32_t time_ = 0;  // of the own strand
  std::int64_t depth_ = 0;
};

// A moment in one strand.
struct Epoch {
  int strand = -1;
  std::uint32_t time = 0;
  int step = 0;

  bool before(const Clock& clock) const { return strand < 0 || time <= clock.at(static_cast<std::size_t>(strand)); }
};

// Who touched one chunk of memory last, to find two accesses that nothing orders and of which one is a write.
// Idea: FastTrack (Flanagan and Freund, PLDI 2009), without its read-epoch compression.
class AccessHistory {
 public:
  // Each returns the earlier access that this one races with, or null; then records this one.
  const Epoch* read(const Epoch& now, const Clock& clock) {
    if (!write_.before(clock)) return &write_;
    reads_.push_back(now);
    return nullptr;
  }
  const Epoch* write(const Epoch& now, const Clock& clock) {
    if (!write_.before(clock)) return &write_;
    for (const Epoch& r : reads_)
      if (!r.before(clock)) return &r;
    reads_.clear();
    write_ = now;
    return nullptr;
  }
  const Epoch& last_write() const { return write_; }

 private:
  Epoch write_;
  std::vector<Epoch> reads_;
};

}  // namespace weft::schedule::symbolic
