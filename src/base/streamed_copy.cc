#include "base/streamed_copy.h"

// Compiled once per instruction set by Highway's foreach_target, then dispatched at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/streamed_copy.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#ifndef WEFT_BASE_STREAMED_COPY_ONCE
#define WEFT_BASE_STREAMED_COPY_ONCE
#include <hwy/cache_control.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Requires: `to` is aligned to a vector. Copies whole vectors; returns how many bytes that was.
std::size_t stream_vectors(std::byte* raw_to, const std::byte* raw_from, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto* from = reinterpret_cast<const std::uint8_t*>(raw_from);
  auto* to = reinterpret_cast<std::uint8_t*>(raw_to);
  std::size_t i = 0;
  for (; i + 2 * lanes <= bytes; i += 2 * lanes) {
    const auto a = hn::LoadU(d, from + i), b = hn::LoadU(d, from + i + lanes);
    hn::Stream(a, d, to + i);
    hn::Stream(b, d, to + i + lanes);
  }
  return i;
}

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(stream_vectors);

void streamed_copy_unordered(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kVector = 64;  // the largest
  const std::size_t before = std::min(bytes, (kVector - reinterpret_cast<std::uintptr_t>(to) % kVector) % kVector);
  std::memcpy(to, from, before);
  const std::size_t done = before + HWY_DYNAMIC_DISPATCH(stream_vectors)(to + before, from + before, bytes - before);
  std::memcpy(to + done, from + done, bytes - done);
}

// Streamed stores are ordered only by a fence; readers rely on plain release order.
void order_streamed_copies() { hwy::FlushStream(); }

void streamed_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  streamed_copy_unordered(to, from, bytes);
  order_streamed_copies();
}

}  // namespace weft
#endif  // HWY_ONCE
