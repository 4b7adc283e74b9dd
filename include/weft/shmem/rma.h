#ifndef WEFT_SHMEM_RMA_H
#define WEFT_SHMEM_RMA_H

/* Put, get, put with signal, and their order. The _nbi forms may return before they are complete; quiet completes. */

#include "weft/shmem/types.h"

WEFT_SHMEM_BEGIN

#define WEFT_SHMEM_PUT_GET(T, name, a, b)                                                                             \
  WEFT_SHMEM_FUNCTION(void, name##_put##a, (T * dest, const T* source, size_t nelems, int pe))                        \
  WEFT_SHMEM_FUNCTION(void, name##_get##a, (T * dest, const T* source, size_t nelems, int pe))                        \
  WEFT_SHMEM_FUNCTION(void, ctx_##name##_put##a, (shmem_ctx_t ctx, T * dest, const T* source, size_t nelems, int pe)) \
  WEFT_SHMEM_FUNCTION(void, ctx_##name##_get##a, (shmem_ctx_t ctx, T * dest, const T* source, size_t nelems, int pe))
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_PUT_GET, , )
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_PUT_GET, _nbi, )
#undef WEFT_SHMEM_PUT_GET

#define WEFT_SHMEM_ONE_AND_STRIDED(T, name, a, b)                                                        \
  WEFT_SHMEM_FUNCTION(void, name##_p, (T * dest, T value, int pe))                                       \
  WEFT_SHMEM_FUNCTION(T, name##_g, (const T* source, int pe))                                            \
  WEFT_SHMEM_FUNCTION(void, name##_iput,                                                                 \
                      (T * dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe))  \
  WEFT_SHMEM_FUNCTION(void, name##_iget,                                                                 \
                      (T * dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe))  \
  WEFT_SHMEM_FUNCTION(void, ctx_##name##_p, (shmem_ctx_t ctx, T * dest, T value, int pe))                \
  WEFT_SHMEM_FUNCTION(T, ctx_##name##_g, (shmem_ctx_t ctx, const T* source, int pe))                     \
  WEFT_SHMEM_FUNCTION(                                                                                   \
      void, ctx_##name##_iput,                                                                           \
      (shmem_ctx_t ctx, T * dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe)) \
  WEFT_SHMEM_FUNCTION(                                                                                   \
      void, ctx_##name##_iget,                                                                           \
      (shmem_ctx_t ctx, T * dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe))
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_ONE_AND_STRIDED, , )
#undef WEFT_SHMEM_ONE_AND_STRIDED

/* shmem_put64, shmem_putmem, …: nelems elements of `size` bits; mem: of one byte */
#define WEFT_SHMEM_UNTYPED(size, a, b)                                                             \
  WEFT_SHMEM_FUNCTION(void, put##size##a, (void* dest, const void* source, size_t nelems, int pe)) \
  WEFT_SHMEM_FUNCTION(void, get##size##a, (void* dest, const void* source, size_t nelems, int pe)) \
  WEFT_SHMEM_FUNCTION(void, ctx_put##size##a,                                                      \
                      (shmem_ctx_t ctx, void* dest, const void* source, size_t nelems, int pe))    \
  WEFT_SHMEM_FUNCTION(void, ctx_get##size##a, (shmem_ctx_t ctx, void* dest, const void* source, size_t nelems, int pe))
WEFT_SHMEM_BIT_SIZES(WEFT_SHMEM_UNTYPED, , )
WEFT_SHMEM_BIT_SIZES(WEFT_SHMEM_UNTYPED, _nbi, )
WEFT_SHMEM_UNTYPED(mem, , )
WEFT_SHMEM_UNTYPED(mem, _nbi, )
#undef WEFT_SHMEM_UNTYPED

#define WEFT_SHMEM_UNTYPED_STRIDED(size, a, b)                                                                \
  WEFT_SHMEM_FUNCTION(void, iput##size,                                                                       \
                      (void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe))  \
  WEFT_SHMEM_FUNCTION(void, iget##size,                                                                       \
                      (void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe))  \
  WEFT_SHMEM_FUNCTION(                                                                                        \
      void, ctx_iput##size,                                                                                   \
      (shmem_ctx_t ctx, void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe)) \
  WEFT_SHMEM_FUNCTION(                                                                                        \
      void, ctx_iget##size,                                                                                   \
      (shmem_ctx_t ctx, void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe))
WEFT_SHMEM_BIT_SIZES(WEFT_SHMEM_UNTYPED_STRIDED, , )
#undef WEFT_SHMEM_UNTYPED_STRIDED

/* A PE that sees the signal sees the data, too. sig_op: SHMEM_SIGNAL_SET or SHMEM_SIGNAL_ADD. */
#define WEFT_SHMEM_PUT_SIGNAL(T, name, a, b)                                                                           \
  WEFT_SHMEM_FUNCTION(                                                                                                 \
      void, name##_signal##a,                                                                                          \
      (T * dest, const T* source, size_t nelems, uint64_t* sig_addr, uint64_t signal, int sig_op, int pe))             \
  WEFT_SHMEM_FUNCTION(void, ctx_##name##_signal##a,                                                                    \
                      (shmem_ctx_t ctx, T * dest, const T* source, size_t nelems, uint64_t* sig_addr, uint64_t signal, \
                       int sig_op, int pe))
#define WEFT_SHMEM_TYPED_SIGNAL(T, name, a, b) WEFT_SHMEM_PUT_SIGNAL(T, name##_put, a, b)
#define WEFT_SHMEM_UNTYPED_SIGNAL(size, a, b) WEFT_SHMEM_PUT_SIGNAL(void, put##size, a, b)
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED_SIGNAL, , )
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED_SIGNAL, _nbi, )
WEFT_SHMEM_BIT_SIZES(WEFT_SHMEM_UNTYPED_SIGNAL, , )
WEFT_SHMEM_BIT_SIZES(WEFT_SHMEM_UNTYPED_SIGNAL, _nbi, )
WEFT_SHMEM_UNTYPED_SIGNAL(mem, , )
WEFT_SHMEM_UNTYPED_SIGNAL(mem, _nbi, )
#undef WEFT_SHMEM_UNTYPED_SIGNAL
#undef WEFT_SHMEM_TYPED_SIGNAL
#undef WEFT_SHMEM_PUT_SIGNAL
WEFT_SHMEM_FUNCTION(uint64_t, signal_fetch, (const uint64_t* sig_addr))
WEFT_SHMEM_FUNCTION(uint64_t, signal_wait_until, (uint64_t * sig_addr, int cmp, uint64_t cmp_value))

WEFT_SHMEM_FUNCTION(void, fence, (void))
WEFT_SHMEM_FUNCTION(void, quiet, (void))
WEFT_SHMEM_FUNCTION(void, ctx_fence, (shmem_ctx_t ctx))
WEFT_SHMEM_FUNCTION(void, ctx_quiet, (shmem_ctx_t ctx))
WEFT_SHMEM_END

#endif
