#pragma once

#include <algorithm>

#include "base/free_list.h"
#include "base/result.h"
#include "base/units.h"

namespace weft::net::memory {

// Hands out page-aligned blocks of one range, first fit. Registered memory is allocated rarely and in large blocks.
// Thread: one at a time. Owns: nothing; the range must outlive it.
class Heap {
 public:
  static constexpr Bytes kPage = 4096;

  Heap(std::byte* base, Bytes bytes) : base_(base), blocks_(0, bytes, kPage) {}

  // The size of a block for `bytes`.
  static Bytes size_for(Bytes bytes) { return (std::max<Bytes>(bytes, 1) + kPage - 1) / kPage * kPage; }
  // Errors: kNoResources.
  Result<void*> allocate(Bytes bytes);
  static tl::unexpected<Error> exhausted(Bytes bytes);
  // Returns the size of the block. Requires: `memory` came from allocate and was not freed.
  Bytes deallocate(void* memory);

 private:
  std::byte* base_;
  FreeList blocks_;
};

}  // namespace weft::net::memory
