#pragma once

#include <cstddef>

namespace weft {

// Copies past this core's caches to memory; the ranges do not overlap. What another core reads next it gets from there
// at the rate of memory, wherever it is; out of this core's cache it would get it line by line, each with the latency
// between the two (bench/results/2026-11-22-slots.md). Ordered before the caller's next store, as plain copies are.
void streamed_copy(std::byte* to, const std::byte* from, std::size_t bytes);
// The same for one of many pieces: the caller's stores are ordered behind it by order_streamed_copies() only.
void streamed_copy_unordered(std::byte* to, const std::byte* from, std::size_t bytes);
void order_streamed_copies();

}  // namespace weft
