#pragma once

#include <map>
#include <optional>

#include "base/units.h"

namespace weft {

// Hands out blocks of one range by offset, first fit. The same calls in the same order give the same offsets.
// Bookkeeping is kept outside the range. Thread: one at a time.
class FreeList {
 public:
  // Blocks are multiples of `unit`, a power of two; the last one may be cut short by `end`.
  FreeList(Bytes begin, Bytes end, Bytes unit) : unit_(unit) { free_[begin] = end - begin; }

  // The offset, a multiple of `alignment` and of the unit; nothing if no free block is large enough. Requires:
  // `alignment` is a power of two.
  std::optional<Bytes> allocate(Bytes bytes, Bytes alignment = 1);
  // The size of the block; nothing: `offset` is not the start of a block in use.
  std::optional<Bytes> release(Bytes offset);
  // Gives back all of a block in use but its first `bytes`, rounded up to the unit. Requires: it is that large.
  void cut(Bytes offset, Bytes bytes);
  // The size that was asked for; nothing: not the start of a block in use.
  std::optional<Bytes> size_of(Bytes offset) const;

 private:
  struct Block {
    Bytes size, asked;
  };
  Bytes unit_;
  std::map<Bytes, Bytes> free_;  // offset -> size; free blocks never touch each other
  std::map<Bytes, Block> used_;
};

}  // namespace weft
