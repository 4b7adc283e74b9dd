#pragma once

#include <algorithm>
#include <cstddef>

// Cache lines that another core has last used are asked for at once, not one after the other as stores and loads come
// to them: lines are then under way together, and cost about one trip between the cores instead of one each.
namespace weft::net::memory {

// Bytes: 16 lines, as in bench/results/2026-11-22-small-calls.md; a choice.
inline constexpr std::size_t kPrefetched = 16 * 64;

// What is going to be read.
inline void prefetch(const std::byte* from, std::size_t bytes) {
  for (std::size_t at = 0; at < std::min(bytes, kPrefetched); at += 64) __builtin_prefetch(from + at);
}

// What is going to be written. Not by the builtin on x86: it prefetches for reading unless -mprfchw is given.
inline void prefetch_to_write(std::byte* to, std::size_t bytes) {
  for (std::size_t at = 0; at < std::min(bytes, kPrefetched); at += 64) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(to[at]));
#else
    __builtin_prefetch(to + at, 1);
#endif
  }
}

}  // namespace weft::net::memory
