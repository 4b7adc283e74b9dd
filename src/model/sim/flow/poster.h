#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/units.h"

namespace weft::sim {

// What hands a rank's messages to the network, or takes those that come (NCCL's proxy is one thread): all that are
// there at once share it equally, so that it does not matter which of several simultaneous ones came first. Work in
// seconds.
class Poster {
 public:
  void add(std::int32_t actor, double seconds, Duration now) {
    pass(now);
    posts_.emplace_back(served_ + seconds, actor);
    std::ranges::push_heap(posts_, std::greater{});
  }
  // When the next one is done if no other comes. Requires: one is there.
  Duration next(Duration now) {
    pass(now);
    return Duration::seconds((posts_.front().first - served_) * static_cast<double>(posts_.size()));
  }
  // Those that are done by now, the one with least work first.
  std::vector<std::int32_t> take(Duration now) {
    constexpr double kNothing = 1e-12;  // below the clock's resolution
    pass(now);
    std::vector<std::int32_t> done;
    while (!posts_.empty() && posts_.front().first - served_ <= kNothing) {
      done.push_back(posts_.front().second);
      std::ranges::pop_heap(posts_, std::greater{});
      posts_.pop_back();
    }
    return done;
  }
  bool idle() const { return posts_.empty(); }
  std::uint32_t turn() { return ++turn_; }                          // of the event that is waited for
  bool is_turn(std::uint32_t turn) const { return turn == turn_; }  // the others are stale

 private:
  void pass(Duration now) {
    if (posts_.empty())
      served_ = 0;
    else
      served_ += (now - since_).s() / static_cast<double>(posts_.size());
    since_ = now;
  }

  Duration since_;
  double served_ = 0;  // what each of those that were there all the time has had
  // A heap by what `served_` must have reached: an incast has thousands at once.
  std::vector<std::pair<double, std::int32_t>> posts_;
  std::uint32_t turn_ = 0;
};

}  // namespace weft::sim
