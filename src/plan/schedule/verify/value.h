#pragma once

#include <memory>
#include <span>
#include <vector>

#include "plan/schedule/step.h"

namespace weft::schedule::symbolic {

// What a chunk of memory holds, symbolically: how often each rank's contribution to which chunk is in it. Consecutive
// ranks are one part, and copies of a value share its parts, so that a schedule on a thousand ranks fits into memory.
class Value {
 public:
  struct Part {
    ChunkId chunk = 0;
    Rank first = 0, ranks = 0;  // consecutive ones
    int count = 0;              // of each rank's contribution

    Rank end() const { return first + ranks; }
  };

  Value() = default;  // undefined: nothing was written
  static Value contribution(Rank rank, ChunkId chunk) {
    Value v;
    v.only_ = {chunk, rank, 1, 1};
    return v;
  }

  bool defined() const { return only_.ranks > 0 || several_; }
  // Sorted by chunk and rank, as few as there can be.
  std::span<const Part> parts() const {
    if (several_) return *several_;
    return {&only_, only_.ranks > 0 ? 1u : 0u};
  }

  // The first of the ranks from `first` to before `end` whose contribution to the chunk is missing; `end`: none is.
  Rank lacks(ChunkId chunk, Rank first, Rank end) const {
    for (const Part& p : parts()) {
      if (p.chunk != chunk || p.end() <= first) continue;
      if (p.first > first) break;
      first = p.end();
    }
    return first < end ? first : end;
  }

  // The reduction of both. Requires: both defined.
  Value operator+(const Value& o) const {
    std::vector<Part> sum;
    const auto put = [&](const Part& p) {
      if (!sum.empty() && sum.back().chunk == p.chunk && sum.back().end() == p.first && sum.back().count == p.count)
        sum.back().ranks += p.ranks;
      else
        sum.push_back(p);
    };
    std::span<const Part> left[] = {parts(), o.parts()};
    Part next[] = {left[0].front(), left[1].front()};
    const auto advance = [&](int side) {
      left[side] = left[side].subspan(1);
      if (!left[side].empty()) next[side] = left[side].front();
    };
    const auto before = [](const Part& a, const Part& b) {
      return a.chunk != b.chunk ? a.chunk < b.chunk : a.first < b.first;
    };
    while (!left[0].empty() && !left[1].empty()) {
      const int one = before(next[1], next[0]) ? 1 : 0;
      Part &a = next[one], &b = next[1 - one];
      if (a.chunk != b.chunk || a.end() <= b.first) {
        put(a);
        advance(one);
      } else if (a.first < b.first) {
        put({a.chunk, a.first, b.first - a.first, a.count});
        a.ranks = a.end() - b.first, a.first = b.first;
      } else {
        const Rank both = a.ranks < b.ranks ? a.ranks : b.ranks;
        put({a.chunk, a.first, both, a.count + b.count});
        for (const int side : {0, 1}) {
          next[side].first += both, next[side].ranks -= both;
          if (next[side].ranks == 0) advance(side);
        }
      }
    }
    for (const int side : {0, 1})
      while (!left[side].empty()) {
        put(next[side]);
        advance(side);
      }
    Value value;
    if (sum.size() == 1)
      value.only_ = sum.front();
    else
      value.several_ = std::make_shared<const std::vector<Part>>(std::move(sum));
    return value;
  }

 private:
  Part only_;
  std::shared_ptr<const std::vector<Part>> several_;  // null: `only_`, or nothing
};

}  // namespace weft::schedule::symbolic
