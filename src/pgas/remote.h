#pragma once

#include <atomic>
#include <cstring>
#include <type_traits>

#include "pgas/space.h"
#include "weft/pgas_types.h"

// What a rank does to its peers' symmetric memory, by load and store. Everything is complete on return: a put's source
// may be changed and, because stores of one core are seen in the order in which they were made (x86) or were followed
// by a release (elsewhere), fence() and quiet() have only the compiler and the store buffer to order.
namespace weft::pgas {

// Orders: what was put before is seen by a peer that sees what is put afterwards.
inline void fence() { std::atomic_thread_fence(std::memory_order_release); }
// Completes: what was put before is in the peers' memory.
inline void quiet() { std::atomic_thread_fence(std::memory_order_seq_cst); }

inline void put(const Space& space, const char* call, void* to, const void* from, std::size_t bytes, Rank rank) {
  if (bytes == 0) return;
  std::memcpy(space.at(call, to, static_cast<Bytes>(bytes), rank), from, bytes);
}

inline void get(const Space& space, const char* call, void* to, const void* from, std::size_t bytes, Rank rank) {
  if (bytes == 0) return;
  std::memcpy(to, space.at(call, from, static_cast<Bytes>(bytes), rank), bytes);
}

// One element; whole even if the peer is looking, where the processor stores such elements whole.
template <class T>
void put_one(const Space& space, const char* call, T* to, T value, Rank rank) {
  std::memcpy(space.at(call, to, sizeof(T), rank), &value, sizeof(T));
}
template <class T>
T get_one(const Space& space, const char* call, const T* from, Rank rank) {
  T value;
  std::memcpy(&value, space.at(call, from, sizeof(T), rank), sizeof(T));
  return value;
}

namespace detail {

inline void check_strides(const Space& space, const char* call, std::ptrdiff_t one, std::ptrdiff_t other) {
  if (one < 1 || other < 1) [[unlikely]]
    space.misuse(call, "a stride is less than 1");
}

inline Bytes extent(std::size_t count, std::ptrdiff_t stride, std::size_t element) {
  return static_cast<Bytes>(((count - 1) * static_cast<std::size_t>(stride) + 1) * element);
}

template <std::size_t element>
void copy_elements(std::byte* to, const std::byte* from, std::size_t to_step, std::size_t from_step,
                   std::size_t count) {
  for (std::size_t i = 0; i < count; ++i, to += to_step, from += from_step) std::memcpy(to, from, element);
}

// The usual sizes are single loads and stores.
inline void copy_strided(std::byte* to, const std::byte* from, std::ptrdiff_t to_stride, std::ptrdiff_t from_stride,
                         std::size_t count, std::size_t element) {
  const std::size_t to_step = static_cast<std::size_t>(to_stride) * element;
  const std::size_t from_step = static_cast<std::size_t>(from_stride) * element;
  switch (element) {
    case 4:
      return copy_elements<4>(to, from, to_step, from_step, count);
    case 8:
      return copy_elements<8>(to, from, to_step, from_step, count);
    default:
      for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, element);
  }
}

}  // namespace detail

// Every stride-th of `count` elements, strides in elements. Requires: strides of at least 1; else the process ends.
inline void put_strided(const Space& space, const char* call, void* to, const void* from, std::size_t element,
                        std::ptrdiff_t to_stride, std::ptrdiff_t from_stride, std::size_t count, Rank rank) {
  if (count == 0) return;
  detail::check_strides(space, call, to_stride, from_stride);
  std::byte* target = space.at(call, to, detail::extent(count, to_stride, element), rank);
  detail::copy_strided(target, static_cast<const std::byte*>(from), to_stride, from_stride, count, element);
}
inline void get_strided(const Space& space, const char* call, void* to, const void* from, std::size_t element,
                        std::ptrdiff_t to_stride, std::ptrdiff_t from_stride, std::size_t count, Rank rank) {
  if (count == 0) return;
  detail::check_strides(space, call, to_stride, from_stride);
  const std::byte* source = space.at(call, from, detail::extent(count, from_stride, element), rank);
  detail::copy_strided(static_cast<std::byte*>(to), source, to_stride, from_stride, count, element);
}

// The old value, except of kSet, which returns `operand`. `compare` is for kCompareSwap alone.
// Requires: T has 32 or 64 bits, `at` is a multiple of its size; floats: only kFetch, kSet, kSwap.
template <AtomicOp op, class T>
T atomic(const Space& space, const char* call, const T* at, T operand, T compare, Rank rank) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  std::byte* target = space.at(call, at, sizeof(T), rank);
  if (reinterpret_cast<std::uintptr_t>(target) % sizeof(T) != 0) [[unlikely]]
    space.misuse(call, "an atomic operation on an address that is not a multiple of the object's size");
  std::atomic_ref<T> cell(*reinterpret_cast<T*>(target));
  if constexpr (op == AtomicOp::kFetch) return cell.load(std::memory_order_acquire);
  if constexpr (op == AtomicOp::kSet) cell.store(operand, std::memory_order_release);
  if constexpr (op == AtomicOp::kSwap) return cell.exchange(operand);
  if constexpr (op == AtomicOp::kCompareSwap) cell.compare_exchange_strong(compare, operand);
  if constexpr (op == AtomicOp::kAdd) return cell.fetch_add(operand);
  if constexpr (op == AtomicOp::kAnd) return cell.fetch_and(operand);
  if constexpr (op == AtomicOp::kOr) return cell.fetch_or(operand);
  if constexpr (op == AtomicOp::kXor) return cell.fetch_xor(operand);
  return op == AtomicOp::kCompareSwap ? compare : operand;
}

// Puts, and then updates the signal: whoever sees the signal sees the data.
inline void put_signal(const Space& space, const char* call, void* to, const void* from, std::size_t bytes,
                       std::uint64_t* signal, std::uint64_t value, SignalOp op, Rank rank) {
  put(space, call, to, from, bytes, rank);
  if (op == SignalOp::kSet)
    atomic<AtomicOp::kSet>(space, call, signal, value, std::uint64_t{0}, rank);
  else
    atomic<AtomicOp::kAdd>(space, call, signal, value, std::uint64_t{0}, rank);
}

}  // namespace weft::pgas
