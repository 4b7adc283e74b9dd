#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace weft::sim {

// What hands a rank's messages to the network (NCCL's proxy is one thread): all that are posted at once share it
// equally, so that it does not matter which of several simultaneous ones came first. Work in seconds.
class Poster {
 public:
  void add(std::int32_t actor, double seconds, Duration now) {
    pass(now);
    posts_.push_back({actor, seconds});
  }
  // When the next one is done if no other comes. Requires: one is there.
  Duration next(Duration now) {
    pass(now);
    double least = posts_.front().left;
    for (const Post& p : posts_) least = std::min(least, p.left);
    return Duration::seconds(least * static_cast<double>(posts_.size()));
  }
  // Those that are done by now, in the order they came.
  std::vector<std::int32_t> take(Duration now) {
    constexpr double kNothing = 1e-12;  // what the clock cannot tell from nothing
    pass(now);
    std::vector<std::int32_t> done;
    for (const Post& p : posts_)
      if (p.left <= kNothing) done.push_back(p.actor);
    std::erase_if(posts_, [](const Post& p) { return p.left <= kNothing; });
    return done;
  }
  bool idle() const { return posts_.empty(); }
  std::uint32_t turn() { return ++turn_; }                          // of the event that is waited for
  bool is_turn(std::uint32_t turn) const { return turn == turn_; }  // the others are stale

 private:
  struct Post {
    std::int32_t actor;
    double left;
  };
  void pass(Duration now) {
    if (!posts_.empty()) {
      const double each = (now - since_).s() / static_cast<double>(posts_.size());
      for (Post& p : posts_) p.left -= each;
    }
    since_ = now;
  }

  Duration since_;
  std::vector<Post> posts_;
  std::uint32_t turn_ = 0;
};

}  // namespace weft::sim
