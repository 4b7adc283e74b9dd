#pragma once

#include <map>
#include <optional>

#include "base/units.h"

namespace weft::pgas {

// Hands out blocks of one range by offset, first fit. The same calls in the same order give the same offsets: that is
// what makes the heap symmetric. Bookkeeping is kept outside the range, where no peer can damage it.
// Thread: one at a time.
class SymmetricHeap {
 public:
  static constexpr Bytes kAlignment = 64;  // a cache line: flags of different allocations never share one

  SymmetricHeap(Bytes begin, Bytes end) { free_[begin] = end - begin; }

  // The offset; nothing if no free block is large enough. Requires: `alignment` is a power of two.
  std::optional<Bytes> allocate(Bytes bytes, Bytes alignment);
  // False: `offset` is not the start of a block in use.
  bool release(Bytes offset);
  // As asked for; nothing: not the start of a block in use.
  std::optional<Bytes> size_of(Bytes offset) const;

 private:
  struct Block {
    Bytes size, asked;
  };
  std::map<Bytes, Bytes> free_;  // offset -> size; free blocks never touch each other
  std::map<Bytes, Block> used_;
};

}  // namespace weft::pgas
