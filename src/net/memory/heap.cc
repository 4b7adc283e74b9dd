#include "net/memory/heap.h"

#include "base/check.h"
#include "base/text.h"

namespace weft::net::memory {

Result<void*> Heap::allocate(Bytes bytes) {
  const Bytes size = std::max<Bytes>(kPage, (bytes + kPage - 1) / kPage * kPage);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, available] = *it;
    if (available < size) continue;
    free_.erase(it);
    if (available > size) free_[offset + size] = available - size;
    used_[offset] = size;
    return base_ + offset;
  }
  return failure(Code::kNoResources, Blame::kOperation, "no {} left in the shared heap; raise WEFT_HEAP",
                 format_bytes(bytes));
}

Bytes Heap::deallocate(void* memory) {
  const Bytes offset = static_cast<std::byte*>(memory) - base_;
  const auto block = used_.find(offset);
  WEFT_REQUIRE(block != used_.end(), "offset {} was not allocated", offset);
  const Bytes size = block->second;
  used_.erase(block);
  auto [at, inserted] = free_.emplace(offset, size);
  if (const auto next = std::next(at); next != free_.end() && next->first == at->first + at->second) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at != free_.begin()) {
    const auto before = std::prev(at);
    if (before->first + before->second == at->first) {
      before->second += at->second;
      free_.erase(at);
    }
  }
  return size;
}

}  // namespace weft::net::memory
