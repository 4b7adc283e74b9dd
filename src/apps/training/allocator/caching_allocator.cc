#include "apps/training/allocator/caching_allocator.h"

#include <algorithm>

#include "base/check.h"

namespace weft::training {
namespace {

constexpr std::int64_t kMaxNonSplitRounding = 20 << 20;  // max_non_split_rounding_mb

std::int64_t up(std::int64_t bytes, std::int64_t unit) { return (bytes + unit - 1) / unit * unit; }

std::int64_t segment_bytes(std::int64_t size) {
  if (size <= kSmallSize) return kSmallBuffer;
  return size < kMinLargeAlloc ? kLargeBuffer : up(size, kRoundLarge);
}

std::int64_t page_bytes(bool small) { return small ? kSmallBuffer : kLargeBuffer; }

}  // namespace

std::optional<CachingAllocator::Handle> CachingAllocator::allocate(std::int64_t bytes, int stream) {
  WEFT_REQUIRE(bytes > 0, "{} bytes", bytes);
  const std::int64_t size = up(bytes, kMinBlock);
  const bool small = size <= kSmallSize;
  std::optional<Handle> found = cached(small, size, stream);
  if (!found) found = from_device(small, size, stream);
  if (!found) {
    ++retries_;
    release_cached();
    found = from_device(small, size, stream);
  }
  if (!found) return std::nullopt;
  split(*found, size);
  Block& block = at(*found);
  block.allocated = true;
  block.requested = bytes;
  requested_ += bytes;
  allocated_ += block.size;
  peak_requested_ = std::max(peak_requested_, requested_);
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  return found;
}

void CachingAllocator::free(Handle handle) {
  Block& block = at(handle);
  WEFT_REQUIRE(block.used && block.allocated, "block {}", handle);
  requested_ -= block.requested;
  allocated_ -= block.size;
  block.allocated = false;
  merge(handle, at(handle).previous);
  merge(handle, at(handle).next);
  set_of(handle).insert(key(handle));
}

void CachingAllocator::reset_peaks() {
  peak_requested_ = requested_, peak_allocated_ = allocated_, peak_reserved_ = reserved_;
}

// The smallest free block of the stream that is large enough. Of blocks at the end of an expandable segment what they
// can grow to counts as their size.
std::optional<CachingAllocator::Handle> CachingAllocator::cached(bool small, std::int64_t size, int stream) {
  Keys& free = pool(small).free;
  auto it = free.lower_bound(Key{stream, size, 0, 0});
  if (it == free.end() || it->stream != stream) return std::nullopt;
  if (settings_.expandable)
    for (auto next = std::next(it);
         next != free.end() && next->stream == stream && expandable_size(next->handle) < expandable_size(it->handle);
         ++next)
      it = next;
  const bool oversize = size >= settings_.max_split;
  if (!oversize && it->size >= settings_.max_split) return std::nullopt;
  if (oversize && it->size >= size + kMaxNonSplitRounding) return std::nullopt;
  const Handle found = it->handle;
  free.erase(it);
  return found;
}

std::int64_t CachingAllocator::expandable_size(Handle h) const {
  const Handle next = at(h).next;
  return at(h).size + (next >= 0 && !at(next).mapped ? at(next).size : 0);
}

std::optional<CachingAllocator::Handle> CachingAllocator::from_device(bool small, std::int64_t size, int stream) {
  if (settings_.expandable) return expanded(small, size, stream);
  const std::int64_t bytes = segment_bytes(size);
  if (reserved_ + bytes > settings_.capacity) return std::nullopt;
  reserve(bytes);
  const Handle block = made({.address = next_address_, .size = bytes, .stream = stream, .small = small});
  next_address_ += bytes;
  return block;
}

std::optional<CachingAllocator::Handle> CachingAllocator::expanded(bool small, std::int64_t size, int stream) {
  Handle block = expandable_block(small, size, stream);
  if (!at(block).mapped) {
    const auto whole = mapped(block, std::min(at(block).size, size));
    if (!whole) return std::nullopt;
    block = *whole;
  }
  while (at(block).size < size) {
    const Handle next = at(block).next;
    const auto whole = mapped(next, std::min(size - at(block).size, at(next).size));
    if (!whole) return std::nullopt;
    block = *whole;
  }
  pool(small).free.erase(key(block));
  return block;
}

// The lowest address with room for `size`, of which some may be mapped already.
CachingAllocator::Handle CachingAllocator::expandable_block(bool small, std::int64_t size, int stream) {
  const auto has_room = [&](Handle h) {
    std::int64_t bytes = 0;
    for (; bytes < size && available(h); h = at(h).next) bytes += at(h).size;
    return bytes >= size;
  };
  Keys& unmapped = pool(small).unmapped;
  for (auto it = unmapped.lower_bound(Key{stream, 0, 0, 0}); it != unmapped.end() && it->stream == stream; ++it) {
    const Handle before = at(it->handle).previous, first = available(before) ? before : it->handle;
    if (has_room(first)) return first;
  }
  // Addresses for 9/8 of the device's memory.
  const std::int64_t page = page_bytes(small);
  const std::int64_t bytes = up(std::max(size, settings_.capacity + settings_.capacity / 8), page);
  next_address_ = up(next_address_, page);
  const Handle block = made(
      {.address = next_address_, .size = bytes, .stream = stream, .small = small, .mapped = false, .expandable = true});
  next_address_ += bytes;
  unmapped.insert(key(block));
  return block;
}

// Backs the beginning of a block by whole pages; returns the free block that has them.
std::optional<CachingAllocator::Handle> CachingAllocator::mapped(Handle h, std::int64_t size) {
  const std::int64_t bytes = up(size, page_bytes(at(h).small));
  if (reserved_ + bytes > settings_.capacity) return std::nullopt;
  reserve(bytes);
  set_of(h).erase(key(h));
  at(h).mapped = true;
  if (bytes < at(h).size) {
    Block rest = at(h);
    rest.address += bytes, rest.size -= bytes, rest.previous = h, rest.mapped = false;
    const Handle remaining = made(rest);
    if (rest.next >= 0) at(rest.next).previous = remaining;
    at(h).next = remaining, at(h).size = bytes;
    set_of(remaining).insert(key(remaining));
  }
  merge(h, at(h).previous);
  merge(h, at(h).next);
  set_of(h).insert(key(h));
  return h;
}

// Gives whole pages of a free block back. Requires: expandable, in no set.
void CachingAllocator::unmap(Handle h) {
  const std::int64_t page = page_bytes(at(h).small);
  const std::int64_t begin = up(at(h).address, page), end = (at(h).address + at(h).size) / page * page;
  if (end <= begin) {
    set_of(h).insert(key(h));
    return;
  }
  const auto cut = [&](Handle block, std::int64_t address) {  // what lies behind `address` becomes the next block
    Block rest = at(block);
    rest.size = rest.address + rest.size - address, rest.address = address, rest.previous = block;
    const Handle behind = made(rest);
    if (rest.next >= 0) at(rest.next).previous = behind;
    at(block).next = behind, at(block).size = address - at(block).address;
    return behind;
  };
  Handle middle = h;
  if (at(h).address < begin) {
    middle = cut(h, begin);
    set_of(h).insert(key(h));
  }
  if (at(middle).address + at(middle).size > end) {
    const Handle behind = cut(middle, end);
    set_of(behind).insert(key(behind));
  }
  reserved_ -= end - begin;
  at(middle).mapped = false;
  merge(middle, at(middle).previous);
  merge(middle, at(middle).next);
  set_of(middle).insert(key(middle));
}

void CachingAllocator::release_cached() {
  for (Pool& of : pools_) {
    std::vector<Handle> whole, pages;
    for (const Key& k : of.free)
      if (at(k.handle).expandable)
        pages.push_back(k.handle);
      else if (at(k.handle).previous < 0 && at(k.handle).next < 0)
        whole.push_back(k.handle);
    for (const Handle h : whole) {
      of.free.erase(key(h));
      reserved_ -= at(h).size;
      forget(h);
    }
    for (const Handle h : pages) {
      of.free.erase(key(h));
      unmap(h);
    }
  }
}

// The rest of the block behind `size` becomes a free block: any rest of the small pool and of expandable segments,
// otherwise one of more than 1 MiB.
void CachingAllocator::split(Handle h, std::int64_t size) {
  const std::int64_t left = at(h).size - size;
  const bool any = at(h).small || settings_.expandable;
  if (any ? left < kMinBlock : left <= kSmallSize || size >= settings_.max_split) return;
  Block rest = at(h);
  rest.address += size, rest.size = left, rest.previous = h;
  const Handle remaining = made(rest);
  if (rest.next >= 0) at(rest.next).previous = remaining;
  at(h).next = remaining, at(h).size = size;
  set_of(remaining).insert(key(remaining));
}

// Requires: `into` is in no set.
void CachingAllocator::merge(Handle into, Handle other) {
  if (!available(other) || at(other).mapped != at(into).mapped) return;
  set_of(other).erase(key(other));
  Block& to = at(into);
  const Block from = at(other);
  if (to.previous == other) {
    to.address = from.address, to.previous = from.previous;
    if (to.previous >= 0) at(to.previous).next = into;
  } else {
    to.next = from.next;
    if (to.next >= 0) at(to.next).previous = into;
  }
  to.size += from.size;
  forget(other);
}

CachingAllocator::Handle CachingAllocator::made(const Block& block) {
  Handle h = static_cast<Handle>(blocks_.size());
  if (spare_.empty()) {
    blocks_.push_back(block);
  } else {
    h = spare_.back();
    spare_.pop_back();
    at(h) = block;
  }
  at(h).used = true, at(h).allocated = false;
  return h;
}

void CachingAllocator::forget(Handle h) {
  at(h).used = false;
  spare_.push_back(h);
}

void CachingAllocator::reserve(std::int64_t bytes) {
  reserved_ += bytes;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
}

std::vector<CachingAllocator::Segment> CachingAllocator::segments() const {
  std::vector<std::pair<std::int64_t, Segment>> found;
  for (const Block& first : blocks_) {
    if (!first.used || !first.mapped || (first.previous >= 0 && at(first.previous).mapped)) continue;
    Segment segment{.small = first.small, .expandable = first.expandable, .stream = first.stream};
    for (const Block* block = &first; block != nullptr && block->mapped;
         block = block->next < 0 ? nullptr : &at(block->next)) {
      segment.bytes += block->size;
      segment.allocated += block->allocated ? block->size : 0;
    }
    found.emplace_back(first.address, segment);
  }
  std::ranges::sort(found, {}, &std::pair<std::int64_t, Segment>::first);
  std::vector<Segment> sorted;
  for (const auto& [address, segment] : found) sorted.push_back(segment);
  return sorted;
}

}  // namespace weft::training
