#include <algorithm>
#include <cstring>

#include "base/streamed_copy.h"
#include "exec/kernels/families.h"

namespace weft::exec {

bool may_stream(std::byte* const* destinations, int destination_count, const std::byte* const* sources,
                int source_count, Bytes bytes, std::size_t vector_bytes) {
  constexpr Bytes kStreamFrom = Bytes{128} << 10;
  bool may = bytes >= kStreamFrom;
  for (int k = 0; may && k < destination_count; ++k) {
    may = reinterpret_cast<std::uintptr_t>(destinations[k]) % vector_bytes == 0;
    for (int s = 0; s < source_count; ++s) may = may && destinations[k] != sources[s];
  }
  return may;
}

void copy(std::byte* const* destinations, int destination_count, const std::byte* source, Bytes bytes, bool stream) {
  constexpr std::size_t kVector = 64;
  const auto size = static_cast<std::size_t>(bytes);
  if (!stream || !may_stream(destinations, destination_count, &source, 1, bytes, kVector)) {
    for (int k = 0; k < destination_count; ++k)
      if (destinations[k] != source) std::memcpy(destinations[k], source, size);
    return;
  }
  constexpr std::size_t kBlock = std::size_t{128} << 10;  // several destinations share what one has read
  for (std::size_t at = 0; at < size; at += kBlock)
    for (int k = 0; k < destination_count; ++k)
      streamed_copy(destinations[k] + at, source + at, std::min(kBlock, size - at));
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
