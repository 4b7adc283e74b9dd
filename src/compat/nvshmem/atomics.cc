#include <bit>

#include "compat/nvshmem/library.h"
#include "weft/low_precision.h"

using namespace weft;
using compat::nvshmem::library;
using compat::onesided::kOne;
using compat::onesided::kZero;
using pgas::AtomicOp;

namespace {

template <AtomicOp op, class T>
T fetched(const char* call, const T* at, T operand, T compare, int pe) {
  return pgas::atomic<op>(library(call).space(), call, at, operand, compare, pe);
}
// The same where the old value is not wanted: a peer far away need not answer.
template <AtomicOp op, class T>
void updated(const char* call, const T* at, T operand, int pe) {
  pgas::atomic<op>(library(call).space(), call, at, operand, kZero<T>, pe, false);
}

// Adds to a float: words have no such operation, so the word is exchanged until nobody else has changed it.
template <class Word, class Change>
Word exchanged(const char* call, Word* at, int pe, Change change) {
  Word old = fetched<AtomicOp::kFetch>(call, at, Word{}, Word{}, pe);
  for (;;) {
    const Word found = fetched<AtomicOp::kCompareSwap>(call, at, change(old), old, pe);
    if (found == old) return old;
    old = found;
  }
}
template <class T>
T added(const char* call, T* at, T value, int pe) {
  using Word = pgas::detail::Word<sizeof(T)>;
  return std::bit_cast<T>(exchanged(call, reinterpret_cast<Word*>(at), pe, [value](Word old) {
    return std::bit_cast<Word>(static_cast<T>(std::bit_cast<T>(old) + value));
  }));
}
// Changes the half of the word of 32 bits in which it lies.
template <class Change>
weft_nvshmem_half half_changed(const char* call, const weft_nvshmem_half* at, int pe, Change change) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  if (address % 2 != 0)
    library(call).space().misuse(call, "an atomic operation on an address that is not a multiple of the object's size");
  const unsigned shift = address % 4 * 8;
  const auto of = [shift](std::uint32_t word) { return static_cast<std::uint16_t>(word >> shift); };
  const std::uint32_t old = exchanged(
      call, reinterpret_cast<std::uint32_t*>(address - address % 4), pe,
      [&](std::uint32_t word) { return (word & ~(0xFFFFu << shift)) | std::uint32_t{change(of(word))} << shift; });
  return {of(old)};
}
weft_nvshmem_half half_added(const char* call, weft_nvshmem_half* at, weft_nvshmem_half value, int pe) {
  return half_changed(call, at, pe, [value](std::uint16_t old) {
    const Float16 sum(static_cast<float>(std::bit_cast<Float16>(old)) +
                      static_cast<float>(std::bit_cast<Float16>(value)));
    return std::bit_cast<std::uint16_t>(sum);
  });
}

}  // namespace

#define LIST(...) __VA_ARGS__
#define FETCHES(T, function, parameters, op, at, operand, compare)                   \
  extern "C" T nvshmem_##function(LIST parameters, int pe) {                         \
    return fetched<AtomicOp::op, T>("nvshmem_" #function, at, operand, compare, pe); \
  }
#define UPDATES(T, function, parameters, op, operand)                  \
  extern "C" void nvshmem_##function(LIST parameters, int pe) {        \
    updated<AtomicOp::op, T>("nvshmem_" #function, dest, operand, pe); \
  }

#define ANY(T, name, a, b)                                                               \
  FETCHES(T, name##_atomic_fetch, (const T* source), kFetch, source, kZero<T>, kZero<T>) \
  UPDATES(T, name##_atomic_set, (T * dest, T value), kSet, value)                        \
  FETCHES(T, name##_atomic_swap, (T * dest, T value), kSwap, dest, value, kZero<T>)
WEFT_SHMEM_AMO_EXTENDED(ANY, , )

#define INTEGER(T, name, a, b)                                                                         \
  FETCHES(T, name##_atomic_compare_swap, (T * dest, T cond, T value), kCompareSwap, dest, value, cond) \
  FETCHES(T, name##_atomic_fetch_inc, (T * dest), kAdd, dest, kOne<T>, kZero<T>)                       \
  UPDATES(T, name##_atomic_inc, (T * dest), kAdd, kOne<T>)                                             \
  FETCHES(T, name##_atomic_fetch_add, (T * dest, T value), kAdd, dest, value, kZero<T>)                \
  UPDATES(T, name##_atomic_add, (T * dest, T value), kAdd, value)
WEFT_SHMEM_AMO_TYPES(INTEGER, , )

#define BITWISE(T, name, operation, op)                                                       \
  FETCHES(T, name##_atomic_fetch_##operation, (T * dest, T value), op, dest, value, kZero<T>) \
  UPDATES(T, name##_atomic_##operation, (T * dest, T value), op, value)
WEFT_SHMEM_BITWISE_TYPES(BITWISE, and, kAnd)
WEFT_SHMEM_BITWISE_TYPES(BITWISE, or, kOr)
WEFT_SHMEM_BITWISE_TYPES(BITWISE, xor, kXor)

#define ADDS(T, name, add, b)                                                 \
  extern "C" T nvshmemx_##name##_atomic_fetch_add(T* dest, T value, int pe) { \
    return add("nvshmemx_" #name "_atomic_fetch_add", dest, value, pe);       \
  }                                                                           \
  extern "C" void nvshmemx_##name##_atomic_add(T* dest, T value, int pe) {    \
    add("nvshmemx_" #name "_atomic_add", dest, value, pe);                    \
  }
WEFT_SHMEM_AMO_FLOATS(ADDS, added, )
ADDS(weft_nvshmem_half, half, half_added, )

extern "C" {
weft_nvshmem_half nvshmem_half_atomic_fetch(const weft_nvshmem_half* source, int pe) {
  return half_changed("nvshmem_half_atomic_fetch", source, pe, [](std::uint16_t old) { return old; });
}
weft_nvshmem_half nvshmem_half_atomic_swap(weft_nvshmem_half* dest, weft_nvshmem_half value, int pe) {
  return half_changed("nvshmem_half_atomic_swap", dest, pe, [value](std::uint16_t) { return value.bits; });
}
void nvshmem_half_atomic_set(weft_nvshmem_half* dest, weft_nvshmem_half value, int pe) {
  half_changed("nvshmem_half_atomic_set", dest, pe, [value](std::uint16_t) { return value.bits; });
}
}
