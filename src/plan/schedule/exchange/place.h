#pragma once

#include "plan/schedule/collective.h"

namespace weft::schedule {

// Files number the chunks of each buffer from 0; weft numbers them in the whole message. A buffer holds its chunks in
// the order of their numbers.

inline int chunks_per_block(const Shape& shape) { return shape.chunks / blocks(shape.collective, shape.ranks); }

// Chunks that rank's `buffer` (kIn or kOut) holds.
inline int chunks_held(const Shape& shape, Buffer buffer, Rank rank) {
  return held_blocks(shape, buffer, rank).count * chunks_per_block(shape);
}

// Requires: 0 <= offset < chunks_held.
inline int chunk_at(const Shape& shape, Buffer buffer, Rank rank, int offset) {
  const int each = chunks_per_block(shape);
  return held_blocks(shape, buffer, rank).at(offset / each) * each + offset % each;
}

// Requires: holds(shape, buffer, chunk, rank).
inline int offset_of(const Shape& shape, Buffer buffer, Rank rank, int chunk) {
  const int each = chunks_per_block(shape);
  const Run held = held_blocks(shape, buffer, rank);
  return (chunk / each - held.first) / held.stride * each + chunk % each;
}

}  // namespace weft::schedule
