#include "net/memory/heap.h"

#include "base/check.h"
#include "base/text.h"

namespace weft::net::memory {

Result<void*> Heap::allocate(Bytes bytes) {
  if (const auto offset = blocks_.allocate(bytes)) return base_ + *offset;
  return exhausted(bytes);
}

tl::unexpected<Error> Heap::exhausted(Bytes bytes) {
  return failure(Code::kNoResources, Blame::kOperation, "no {} left in the shared heap; raise WEFT_HEAP",
                 format_bytes(bytes));
}

Bytes Heap::deallocate(void* memory) {
  const Bytes offset = static_cast<std::byte*>(memory) - base_;
  const auto size = blocks_.release(offset);
  WEFT_REQUIRE(size.has_value(), "offset {} was not allocated", offset);
  return *size;
}

}  // namespace weft::net::memory
