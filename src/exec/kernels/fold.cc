// Compiled once per instruction set by Highway's foreach_target, then dispatched at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/fold.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "exec/kernels/fold.h"

#ifndef WEFT_EXEC_KERNELS_FOLD_ONCE
#define WEFT_EXEC_KERNELS_FOLD_ONCE

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace weft::exec {

// Smaller operations are parts of pipelines whose slots must stay in the cache.
inline constexpr Bytes kStreamFrom = Bytes{128} << 10;

}  // namespace weft::exec

#endif  // WEFT_EXEC_KERNELS_FOLD_ONCE

HWY_BEFORE_NAMESPACE();
namespace weft::exec::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Sums `count` elements; kSources > 0: that many sources, unrolled by the compiler; 0: `sources`.
template <class T, int kSources, bool kStream>
void sum_block(T* HWY_RESTRICT* destinations, int destination_count, const T* const* from, int source_count,
               std::size_t begin, std::size_t end) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const int n = kSources > 0 ? kSources : source_count;
  std::size_t i = begin;
  const auto sum_at = [&](std::size_t at) HWY_ATTR {
    auto v = hn::LoadU(d, from[0] + at);
    for (int s = 1; s < n; ++s) v = hn::Add(v, hn::LoadU(d, from[s] + at));
    return v;
  };
  // Two vectors in flight hide the latency of the chain of additions.
  for (; i + 2 * lanes <= end; i += 2 * lanes) {
    const auto a = sum_at(i);
    const auto b = sum_at(i + lanes);
    for (int k = 0; k < destination_count; ++k) {
      if constexpr (kStream) {
        hn::Stream(a, d, destinations[k] + i);
        hn::Stream(b, d, destinations[k] + i + lanes);
      } else {
        hn::StoreU(a, d, destinations[k] + i);
        hn::StoreU(b, d, destinations[k] + i + lanes);
      }
    }
  }
  for (; i < end; ++i) {
    T v = from[0][i];
    for (int s = 1; s < n; ++s) v = static_cast<T>(v + from[s][i]);
    for (int k = 0; k < destination_count; ++k) destinations[k][i] = v;
  }
}

template <class T, bool kStream>
void sum_range(T** destinations, int destination_count, const T* const* sources, int source_count, std::size_t begin,
               std::size_t end) {
  switch (source_count) {
    case 1:
      return sum_block<T, 1, kStream>(destinations, destination_count, sources, 1, begin, end);
    case 2:
      return sum_block<T, 2, kStream>(destinations, destination_count, sources, 2, begin, end);
    case 3:
      return sum_block<T, 3, kStream>(destinations, destination_count, sources, 3, begin, end);
    case 4:
      return sum_block<T, 4, kStream>(destinations, destination_count, sources, 4, begin, end);
    default:
      return sum_block<T, 0, kStream>(destinations, destination_count, sources, source_count, begin, end);
  }
}

template <class T>
void sum(std::byte* const* raw_destinations, int destination_count, const std::byte* const* raw_sources,
         int source_count, Bytes bytes, bool stream) {
  const std::size_t count = static_cast<std::size_t>(bytes) / sizeof(T);
  auto* const* destinations = reinterpret_cast<T* const*>(raw_destinations);
  const auto* sources = reinterpret_cast<const T* const*>(raw_sources);
  const hn::ScalableTag<T> d;
  const std::size_t vector = hn::Lanes(d) * sizeof(T);
  for (int k = 0; k < destination_count; ++k) {
    stream = stream && reinterpret_cast<std::uintptr_t>(destinations[k]) % vector == 0;
    for (int s = 0; s < source_count; ++s) stream = stream && destinations[k] != sources[s];
  }
  // The loops below take a mutable array of pointers; the caller's stays untouched.
  auto** targets = const_cast<T**>(destinations);
  if (stream) {
    sum_range<T, true>(targets, destination_count, sources, source_count, 0, count);
    hwy::FlushStream();  // streamed stores are ordered only by a fence; signals rely on plain release order
  } else {
    sum_range<T, false>(targets, destination_count, sources, source_count, 0, count);
  }
}

void sum_f32(std::byte* const* d, int dn, const std::byte* const* s, int sn, Bytes b, bool stream) {
  sum<float>(d, dn, s, sn, b, stream);
}
void sum_f64(std::byte* const* d, int dn, const std::byte* const* s, int sn, Bytes b, bool stream) {
  sum<double>(d, dn, s, sn, b, stream);
}
// Unsigned: two's-complement sums wrap without undefined behaviour and have the same bits.
void sum_i32(std::byte* const* d, int dn, const std::byte* const* s, int sn, Bytes b, bool stream) {
  sum<std::uint32_t>(d, dn, s, sn, b, stream);
}
void sum_i64(std::byte* const* d, int dn, const std::byte* const* s, int sn, Bytes b, bool stream) {
  sum<std::uint64_t>(d, dn, s, sn, b, stream);
}

}  // namespace weft::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::exec {

HWY_EXPORT(sum_f32);
HWY_EXPORT(sum_f64);
HWY_EXPORT(sum_i32);
HWY_EXPORT(sum_i64);

namespace {

using Kernel = void (*)(std::byte* const*, int, const std::byte* const*, int, Bytes, bool);

// One source is a copy, whatever the type; a destination that is the source needs none. Small sums skip the dispatch.
template <class T, Kernel kVectorised, bool kStreams>
void fold(std::byte* const* destinations, int destination_count, const std::byte* const* sources, int source_count,
          Bytes bytes, const fabric::Scalar*) {
  constexpr Bytes kSmall = 64;
  const bool stream = kStreams && bytes >= kStreamFrom;
  if (source_count == 1 && !stream) {
    for (int k = 0; k < destination_count; ++k)
      if (destinations[k] != sources[0]) std::memcpy(destinations[k], sources[0], static_cast<std::size_t>(bytes));
    return;
  }
  if (source_count == 1 && destination_count == 1 && destinations[0] == sources[0]) return;
  if (bytes > kSmall) return kVectorised(destinations, destination_count, sources, source_count, bytes, stream);
  for (std::size_t at = 0; at < static_cast<std::size_t>(bytes); at += sizeof(T)) {
    T sum, part;
    std::memcpy(&sum, sources[0] + at, sizeof(T));
    for (int s = 1; s < source_count; ++s) {
      std::memcpy(&part, sources[s] + at, sizeof(T));
      sum = static_cast<T>(sum + part);
    }
    for (int k = 0; k < destination_count; ++k) std::memcpy(destinations[k] + at, &sum, sizeof(T));
  }
}

void f32(std::byte* const* d, int dn, const std::byte* const* s, int sn, Bytes b, bool stream) {
  HWY_DYNAMIC_DISPATCH(sum_f32)(d, dn, s, sn, b, stream);
}
void f64(std::byte* const* d, int dn, const std::byte* const* s, int sn, Bytes b, bool stream) {
  HWY_DYNAMIC_DISPATCH(sum_f64)(d, dn, s, sn, b, stream);
}
void i32(std::byte* const* d, int dn, const std::byte* const* s, int sn, Bytes b, bool stream) {
  HWY_DYNAMIC_DISPATCH(sum_i32)(d, dn, s, sn, b, stream);
}
void i64(std::byte* const* d, int dn, const std::byte* const* s, int sn, Bytes b, bool stream) {
  HWY_DYNAMIC_DISPATCH(sum_i64)(d, dn, s, sn, b, stream);
}

template <bool kStreams>
fabric::Fold choose(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return fold<float, f32, kStreams>;
    case DataType::kFloat64:
      return fold<double, f64, kStreams>;
    case DataType::kInt32:
      return fold<std::uint32_t, i32, kStreams>;
    case DataType::kInt64:
      return fold<std::uint64_t, i64, kStreams>;
  }
  return nullptr;
}

}  // namespace

fabric::Fold fold_for(DataType type, ReduceOp, Stores stores) {
  return stores == Stores::kStreamed ? choose<true>(type) : choose<false>(type);
}

}  // namespace weft::exec
#endif  // HWY_ONCE
