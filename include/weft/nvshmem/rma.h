#ifndef WEFT_NVSHMEM_RMA_H
#define WEFT_NVSHMEM_RMA_H

/* Put, get, put with signal, and atomic operations. Where NVSHMEM has a function for kernels alone (put_signal, waits,
   tests), the host may call it here. */

#include "weft/nvshmem/types.h"

WEFT_SHMEM_BEGIN

#define WEFT_NVSHMEM_MOVES(T, name, suffix)                                                                \
  WEFT_NVSHMEM_FUNCTION(void, name##put##suffix, (T * dest, const T* source, size_t nelems, int pe))       \
  WEFT_NVSHMEM_FUNCTION(void, name##get##suffix, (T * dest, const T* source, size_t nelems, int pe))       \
  WEFT_NVSHMEM_FUNCTION(void, name##put##suffix##_nbi, (T * dest, const T* source, size_t nelems, int pe)) \
  WEFT_NVSHMEM_FUNCTION(void, name##get##suffix##_nbi, (T * dest, const T* source, size_t nelems, int pe)) \
  WEFT_NVSHMEM_FUNCTION(                                                                                   \
      void, name##put##suffix##_signal,                                                                    \
      (T * dest, const T* source, size_t nelems, uint64_t* sig_addr, uint64_t signal, int sig_op, int pe)) \
  WEFT_NVSHMEM_FUNCTION(                                                                                   \
      void, name##put##suffix##_signal_nbi,                                                                \
      (T * dest, const T* source, size_t nelems, uint64_t* sig_addr, uint64_t signal, int sig_op, int pe))
#define WEFT_NVSHMEM_STRIDED(T, name, suffix)                                                             \
  WEFT_NVSHMEM_FUNCTION(void, name##iput##suffix,                                                         \
                        (T * dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe)) \
  WEFT_NVSHMEM_FUNCTION(void, name##iget##suffix,                                                         \
                        (T * dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe))
#define WEFT_NVSHMEM_TYPED(T, name, a, b)                                  \
  WEFT_NVSHMEM_MOVES(T, name##_, )                                         \
  WEFT_NVSHMEM_STRIDED(T, name##_, )                                       \
  WEFT_NVSHMEM_FUNCTION(void, name##_p, (T * dest, const T value, int pe)) \
  WEFT_NVSHMEM_FUNCTION(T, name##_g, (const T* source, int pe))
WEFT_NVSHMEM_RMA_TYPES(WEFT_NVSHMEM_TYPED, , )
/* nvshmem_put64, nvshmem_iget8, …: nelems elements of `bits` bits */
#define WEFT_NVSHMEM_BITS(bits, a, b) WEFT_NVSHMEM_MOVES(void, , bits) WEFT_NVSHMEM_STRIDED(void, , bits)
WEFT_SHMEM_BIT_SIZES(WEFT_NVSHMEM_BITS, , )
WEFT_NVSHMEM_MOVES(void, , mem)
#undef WEFT_NVSHMEM_BITS
#undef WEFT_NVSHMEM_TYPED
#undef WEFT_NVSHMEM_STRIDED
#undef WEFT_NVSHMEM_MOVES

#define WEFT_NVSHMEM_ATOMICS(T, name, a, b)                   \
  T nvshmem_##name##_atomic_fetch(const T* source, int pe);   \
  void nvshmem_##name##_atomic_set(T* dest, T value, int pe); \
  T nvshmem_##name##_atomic_swap(T* dest, T value, int pe);
WEFT_SHMEM_AMO_EXTENDED(WEFT_NVSHMEM_ATOMICS, , )
WEFT_NVSHMEM_ATOMICS(weft_nvshmem_half, half, , )
#undef WEFT_NVSHMEM_ATOMICS
#define WEFT_NVSHMEM_ATOMICS(T, name, a, b)                                 \
  T nvshmem_##name##_atomic_compare_swap(T* dest, T cond, T value, int pe); \
  T nvshmem_##name##_atomic_fetch_inc(T* dest, int pe);                     \
  void nvshmem_##name##_atomic_inc(T* dest, int pe);                        \
  T nvshmem_##name##_atomic_fetch_add(T* dest, T value, int pe);            \
  void nvshmem_##name##_atomic_add(T* dest, T value, int pe);
WEFT_SHMEM_AMO_TYPES(WEFT_NVSHMEM_ATOMICS, , )
#undef WEFT_NVSHMEM_ATOMICS
#define WEFT_NVSHMEM_ATOMICS(T, name, operation, b)                      \
  T nvshmem_##name##_atomic_fetch_##operation(T* dest, T value, int pe); \
  void nvshmem_##name##_atomic_##operation(T* dest, T value, int pe);
WEFT_SHMEM_BITWISE_TYPES(WEFT_NVSHMEM_ATOMICS, and, )
WEFT_SHMEM_BITWISE_TYPES(WEFT_NVSHMEM_ATOMICS, or, )
WEFT_SHMEM_BITWISE_TYPES(WEFT_NVSHMEM_ATOMICS, xor, )
#undef WEFT_NVSHMEM_ATOMICS
#define WEFT_NVSHMEM_ATOMICS(T, name, a, b)                       \
  T nvshmemx_##name##_atomic_fetch_add(T* dest, T value, int pe); \
  void nvshmemx_##name##_atomic_add(T* dest, T value, int pe);
WEFT_SHMEM_AMO_FLOATS(WEFT_NVSHMEM_ATOMICS, , )
WEFT_NVSHMEM_ATOMICS(weft_nvshmem_half, half, , )
#undef WEFT_NVSHMEM_ATOMICS

uint64_t nvshmem_signal_fetch(uint64_t* sig_addr);
void nvshmemx_signal_op(uint64_t* sig_addr, uint64_t signal, int sig_op, int pe);
void nvshmemx_signal_op_on_stream(uint64_t* sig_addr, uint64_t signal, int sig_op, int pe, cudaStream_t stream);
void nvshmem_fence(void);
void nvshmem_quiet(void);
void nvshmemx_quiet_on_stream(cudaStream_t stream);
void nvshmemx_flush(void);
void nvshmemx_flush_on_stream(cudaStream_t stream);
WEFT_SHMEM_END

#endif
