#pragma once

#include <cstdint>
#include <span>

// Elements of a rank's part that moves write.
namespace weft::reshard {

// `count` pieces of `length` elements, `stride` apart.
struct Pieces {
  std::int64_t begin = 0, length = 0, stride = 1, count = 1;

  // Those from piece `i` on.
  Pieces from(std::int64_t i) const { return {begin + i * stride, length, stride, count - i}; }
};

// Whether no element is in two pieces. Pieces at equal distances are looked at as rectangles of a grid that is as wide
// as the stride most of them have, so that the time grows with the number of `all`, not with that of pieces.
bool disjoint(std::span<const Pieces> all);

}  // namespace weft::reshard
