#include "base/free_list.h"

#include <algorithm>

namespace weft {
namespace {

Bytes round_up(Bytes value, Bytes unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

std::optional<Bytes> FreeList::allocate(Bytes bytes, Bytes alignment) {
  const Bytes grain = std::max(alignment, unit_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, available] = *it;
    const Bytes at = round_up(offset, grain);
    if (bytes > available || at - offset > available - bytes) continue;
    const Bytes size = std::min(round_up(std::max<Bytes>(bytes, 1), unit_), available - (at - offset));
    if (size == 0) continue;
    free_.erase(it);
    if (at > offset) free_[offset] = at - offset;
    if (const Bytes rest = offset + available - (at + size); rest > 0) free_[at + size] = rest;
    used_[at] = {size, bytes};
    return at;
  }
  return std::nullopt;
}

void FreeList::cut(Bytes offset, Bytes bytes) {
  Block& block = used_.at(offset);
  const Bytes kept = std::min(round_up(std::max<Bytes>(bytes, 1), unit_), block.size);
  const Bytes rest = block.size - kept;
  block = {kept, bytes};
  if (rest == 0) return;
  used_[offset + kept] = {rest, rest};
  release(offset + kept);
}

std::optional<Bytes> FreeList::release(Bytes offset) {
  const auto block = used_.find(offset);
  if (block == used_.end()) return std::nullopt;
  const Bytes size = block->second.size;
  auto [at, inserted] = free_.emplace(offset, size);
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
  return size;
}

std::optional<Bytes> FreeList::size_of(Bytes offset) const {
  const auto block = used_.find(offset);
  if (block == used_.end()) return std::nullopt;
  return block->second.asked;
}

}  // namespace weft
