#ifndef WEFT_SHMEM_ATOMICS_H
#define WEFT_SHMEM_ATOMICS_H

/* Atomic operations on peers' memory. The _nbi forms leave the old value in *fetch, at the latest after quiet. */

#include "weft/shmem/types.h"

WEFT_SHMEM_BEGIN

#define WEFT_SHMEM_ATOMIC(result, type, operation, ...)                 \
  WEFT_SHMEM_FUNCTION(result, type##_atomic_##operation, (__VA_ARGS__)) \
  WEFT_SHMEM_FUNCTION(result, ctx_##type##_atomic_##operation, (shmem_ctx_t ctx, __VA_ARGS__))

#define WEFT_SHMEM_ATOMICS_ANY(T, name, a, b)                                 \
  WEFT_SHMEM_ATOMIC(T, name, fetch, const T* source, int pe)                  \
  WEFT_SHMEM_ATOMIC(void, name, set, T* dest, T value, int pe)                \
  WEFT_SHMEM_ATOMIC(T, name, swap, T* dest, T value, int pe)                  \
  WEFT_SHMEM_ATOMIC(void, name, fetch_nbi, T* fetch, const T* source, int pe) \
  WEFT_SHMEM_ATOMIC(void, name, swap_nbi, T* fetch, T* dest, T value, int pe)
WEFT_SHMEM_AMO_EXTENDED(WEFT_SHMEM_ATOMICS_ANY, , )
#undef WEFT_SHMEM_ATOMICS_ANY

#define WEFT_SHMEM_ATOMICS_INTEGER(T, name, a, b)                                             \
  WEFT_SHMEM_ATOMIC(T, name, compare_swap, T* dest, T cond, T value, int pe)                  \
  WEFT_SHMEM_ATOMIC(T, name, fetch_inc, T* dest, int pe)                                      \
  WEFT_SHMEM_ATOMIC(void, name, inc, T* dest, int pe)                                         \
  WEFT_SHMEM_ATOMIC(T, name, fetch_add, T* dest, T value, int pe)                             \
  WEFT_SHMEM_ATOMIC(void, name, add, T* dest, T value, int pe)                                \
  WEFT_SHMEM_ATOMIC(void, name, compare_swap_nbi, T* fetch, T* dest, T cond, T value, int pe) \
  WEFT_SHMEM_ATOMIC(void, name, fetch_inc_nbi, T* fetch, T* dest, int pe)                     \
  WEFT_SHMEM_ATOMIC(void, name, fetch_add_nbi, T* fetch, T* dest, T value, int pe)
WEFT_SHMEM_AMO_TYPES(WEFT_SHMEM_ATOMICS_INTEGER, , )
#undef WEFT_SHMEM_ATOMICS_INTEGER

#define WEFT_SHMEM_ATOMICS_BITWISE(T, name, operation, b)                 \
  WEFT_SHMEM_ATOMIC(T, name, fetch_##operation, T* dest, T value, int pe) \
  WEFT_SHMEM_ATOMIC(void, name, operation, T* dest, T value, int pe)      \
  WEFT_SHMEM_ATOMIC(void, name, fetch_##operation##_nbi, T* fetch, T* dest, T value, int pe)
WEFT_SHMEM_BITWISE_TYPES(WEFT_SHMEM_ATOMICS_BITWISE, and, )
WEFT_SHMEM_BITWISE_TYPES(WEFT_SHMEM_ATOMICS_BITWISE, or, )
WEFT_SHMEM_BITWISE_TYPES(WEFT_SHMEM_ATOMICS_BITWISE, xor, )
#undef WEFT_SHMEM_ATOMICS_BITWISE
#undef WEFT_SHMEM_ATOMIC
WEFT_SHMEM_END

#endif
