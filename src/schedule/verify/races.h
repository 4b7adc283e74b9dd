#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace weft::schedule::symbolic {

// Vector clocks: clock[p] is how much of strand p's past is ordered before.
using Clock = std::vector<std::uint32_t>;

inline void join(Clock& into, const Clock& other) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
}

// A moment in one strand.
struct Epoch {
  int strand = -1;
  std::uint32_t time = 0;
  int step = 0;

  bool before(const Clock& clock) const { return strand < 0 || time <= clock[static_cast<std::size_t>(strand)]; }
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
