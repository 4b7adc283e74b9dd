#include "pgas/symmetric_heap.h"

#include <algorithm>

namespace weft::pgas {
namespace {

Bytes round_up(Bytes value, Bytes unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

std::optional<Bytes> SymmetricHeap::allocate(Bytes bytes, Bytes alignment) {
  const Bytes unit = std::max(alignment, kAlignment);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, available] = *it;
    const Bytes at = round_up(offset, unit);
    if (bytes > available || at - offset > available - bytes) continue;
    const Bytes size = std::min(round_up(std::max<Bytes>(bytes, 1), kAlignment), available - (at - offset));
    if (size == 0) continue;
    free_.erase(it);
    if (at > offset) free_[offset] = at - offset;
    if (const Bytes rest = offset + available - (at + size); rest > 0) free_[at + size] = rest;
    used_[at] = {size, bytes};
    return at;
  }
  return std::nullopt;
}

bool SymmetricHeap::release(Bytes offset) {
  const auto block = used_.find(offset);
  if (block == used_.end()) return false;
  auto [at, inserted] = free_.emplace(offset, block->second.size);
  used_.erase(block);
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
  return true;
}

std::optional<Bytes> SymmetricHeap::size_of(Bytes offset) const {
  const auto block = used_.find(offset);
  if (block == used_.end()) return std::nullopt;
  return block->second.asked;
}

}  // namespace weft::pgas
