#include <algorithm>
#include <cstring>

#include "base/streamed_copy.h"
#include "exec/kernels/families.h"

namespace weft::exec {

namespace {

constexpr Bytes kStreamFrom = Bytes{128} << 10;

bool aligned(const std::byte* memory, std::size_t to) { return reinterpret_cast<std::uintptr_t>(memory) % to == 0; }

void plain_copy(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace

bool may_stream(std::byte* const* destinations, int destination_count, const std::byte* const* sources,
                int source_count, Bytes bytes, std::size_t vector_bytes) {
  bool may = bytes >= kStreamFrom;
  for (int k = 0; may && k < destination_count; ++k) {
    may = aligned(destinations[k], vector_bytes);
    for (int s = 0; s < source_count; ++s) may = may && destinations[k] != sources[s];
  }
  return may;
}

// Not onto itself, where a call is in place.
void copy(std::byte* const* destinations, int destination_count, const std::byte* source, Bytes bytes, bool stream) {
  constexpr std::size_t kVector = 64;
  constexpr std::size_t kBlock = std::size_t{128} << 10;  // several destinations share what one has read
  const bool streams = stream && bytes >= kStreamFrom;
  const auto size = static_cast<std::size_t>(bytes), block = streams ? kBlock : size;
  for (std::size_t at = 0; at < size; at += block)
    for (int k = 0; k < destination_count; ++k) {
      if (destinations[k] == source) continue;
      const auto copy_some = streams && aligned(destinations[k], kVector) ? streamed_copy : plain_copy;
      copy_some(destinations[k] + at, source + at, std::min(block, size - at));
    }
}

std::uint32_t reduction_number(DataType type, ReduceOp op) {
  return static_cast<std::uint32_t>(type) << 8 | static_cast<std::uint32_t>(op);
}

fabric::Fold fold_of_reduction(std::uint32_t number) {
  const std::uint32_t type = number >> 8, op = number & 0xff;
  if (type >= static_cast<std::uint32_t>(kDataTypes) || op >= static_cast<std::uint32_t>(kReduceOps)) return nullptr;
  return fold_for(static_cast<DataType>(type), static_cast<ReduceOp>(op));
}

fabric::Fold fold_for(DataType type, ReduceOp op, Stores stores) {
  if (!applies(type, op)) return nullptr;
  if (op >= ReduceOp::kAnd) return bitwise_fold(op, stores);
  switch (type) {
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return float16_fold(type, op, stores);
    case DataType::kFloat32:
    case DataType::kFloat64:
      return float_fold(type, op, stores);
    case DataType::kFloat8E4M3:
    case DataType::kFloat8E5M2:
      return float8_fold(type, op, stores);
    default:
      return integer_fold(type, op, stores);
  }
}

}  // namespace weft::exec
