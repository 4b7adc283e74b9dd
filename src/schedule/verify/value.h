#pragma once

#include <algorithm>
#include <vector>

#include "schedule/step.h"

namespace weft::schedule::symbolic {

// What a chunk of memory holds, symbolically: how often each rank's contribution to which chunk is in it.
class Value {
 public:
  struct Part {
    ChunkId chunk;
    Rank rank;
    int count;
    auto operator<=>(const Part&) const = default;
  };

  Value() = default;  // undefined: nothing was written
  static Value contribution(Rank rank, ChunkId chunk) {
    Value v;
    v.parts_.push_back({chunk, rank, 1});
    return v;
  }

  bool defined() const { return !parts_.empty(); }
  const std::vector<Part>& parts() const { return parts_; }  // sorted by chunk, rank

  int count(Rank rank, ChunkId chunk) const {
    for (const Part& p : parts_)
      if (p.chunk == chunk && p.rank == rank) return p.count;
    return 0;
  }

  // The reduction of both. Requires: both defined.
  Value operator+(const Value& o) const {
    Value sum;
    sum.parts_.reserve(parts_.size() + o.parts_.size());
    std::merge(parts_.begin(), parts_.end(), o.parts_.begin(), o.parts_.end(), std::back_inserter(sum.parts_));
    std::size_t kept = 0;
    for (const Part& p : sum.parts_) {
      if (kept > 0 && sum.parts_[kept - 1].chunk == p.chunk && sum.parts_[kept - 1].rank == p.rank)
        sum.parts_[kept - 1].count += p.count;
      else
        sum.parts_[kept++] = p;
    }
    sum.parts_.resize(kept);
    return sum;
  }

 private:
  std::vector<Part> parts_;
};

}  // namespace weft::schedule::symbolic
