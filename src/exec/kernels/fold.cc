#include "exec/kernels/families.h"

// Compiled once per instruction set by Highway's foreach_target, then dispatched at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/fold.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#ifndef WEFT_EXEC_KERNELS_FOLD_ONCE
#define WEFT_EXEC_KERNELS_FOLD_ONCE
#include <hwy/cache_control.h>

#include <cstring>
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::exec::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Copies whole vectors past the cache; returns how many bytes that was.
std::size_t stream_copy(std::byte* const* raw_to, int destination_count, const std::byte* raw_from, Bytes bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  if (!may_stream(raw_to, destination_count, &raw_from, 1, bytes, lanes)) return 0;
  const auto* from = reinterpret_cast<const std::uint8_t*>(raw_from);
  auto* const* to = reinterpret_cast<std::uint8_t* const*>(raw_to);
  std::size_t i = 0;
  for (; i + 2 * lanes <= static_cast<std::size_t>(bytes); i += 2 * lanes) {
    const auto a = hn::LoadU(d, from + i), b = hn::LoadU(d, from + i + lanes);
    for (int k = 0; k < destination_count; ++k) {
      hn::Stream(a, d, to[k] + i);
      hn::Stream(b, d, to[k] + i + lanes);
    }
  }
  hwy::FlushStream();  // streamed stores are ordered only by a fence; signals rely on plain release order
  return i;
}

}  // namespace weft::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::exec {

HWY_EXPORT(stream_copy);

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
  if (destination_count == 1 && destinations[0] == source) return;
  const std::size_t done =
      stream ? HWY_DYNAMIC_DISPATCH(stream_copy)(destinations, destination_count, source, bytes) : 0;
  for (int k = 0; k < destination_count; ++k)
    if (destinations[k] != source)
      std::memcpy(destinations[k] + done, source + done, static_cast<std::size_t>(bytes) - done);
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
#endif  // HWY_ONCE
