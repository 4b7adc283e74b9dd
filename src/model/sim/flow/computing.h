#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace weft::sim {

// A kernel on every GPU of a job, beside its communication, as data. It has as many blocks as keep all multiprocessors
// busy to its end, and loses those that communication holds: a value type.
struct Computing {
  Duration alone;           // with all multiprocessors
  int multiprocessors = 0;  // of the GPU
  int held_by_channel = 1;  // a collective's kernel has a block per channel; 0: copy engines move the data
  Rank ranks = 0;           // that compute: the first ones

  bool any() const { return ranks > 0; }
};

// How far one GPU's kernel is.
class Kernel {
 public:
  explicit Kernel(const Computing& computing) : left_(computing.alone.s()), all_(computing.multiprocessors) {}

  // So many more multiprocessors are held from now on; fewer if below 0.
  void hold(int multiprocessors, Duration now) {
    left_ -= (now - since_).s() * pace();
    since_ = now;
    held_ += multiprocessors;
  }
  void end() { done_ = true; }
  // Does it go on? Not if it has ended, nor while nothing is left to compute on.
  bool runs() const { return !done_ && held_ < all_; }
  // Until it ends, if no more is held or released, counted from the last change. Requires: runs().
  Duration left() const { return Duration::seconds(std::max(0.0, left_) / pace()); }
  std::uint32_t turn() { return ++turn_; }                          // of the end that is waited for
  bool is_turn(std::uint32_t turn) const { return turn == turn_; }  // the others are stale

 private:
  double pace() const { return static_cast<double>(std::max(0, all_ - held_)) / all_; }

  double left_;  // seconds with all multiprocessors
  int all_, held_ = 0;
  bool done_ = false;
  Duration since_;
  std::uint32_t turn_ = 0;
};

}  // namespace weft::sim
