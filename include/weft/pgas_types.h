#pragma once

#include <cstdint>

namespace weft::pgas {

// How a waiting rank compares what is in memory (left) with what it was given (right).
enum class Compare : std::uint8_t { kEqual, kNotEqual, kGreater, kGreaterEqual, kLess, kLessEqual };

enum class SignalOp : std::uint8_t { kSet, kAdd };

// On 32 and 64 bits of a peer's memory; each but kSet gives the old value.
enum class AtomicOp : std::uint8_t { kFetch, kSet, kSwap, kCompareSwap, kAdd, kAnd, kOr, kXor };

}  // namespace weft::pgas
