#ifndef WEFT_NVSHMEM_SYNC_H
#define WEFT_NVSHMEM_SYNC_H

/* Waiting for what peers store into this PE's memory; as in OpenSHMEM, with NVSHMEM's numbers for comparisons. */

#include "weft/nvshmem/types.h"

WEFT_SHMEM_BEGIN

#define WEFT_NVSHMEM_WAITS(T, name, suffix, V)                                                                 \
  WEFT_NVSHMEM_FUNCTION(void, name##_wait_until_all##suffix,                                                   \
                        (T * ivars, size_t nelems, const int* status, int cmp, V))                             \
  size_t nvshmem_##name##_wait_until_any##suffix(T* ivars, size_t nelems, const int* status, int cmp, V);      \
  size_t nvshmem_##name##_wait_until_some##suffix(T* ivars, size_t nelems, size_t* indices, const int* status, \
                                                  int cmp, V);                                                 \
  int nvshmem_##name##_test_all##suffix(T* ivars, size_t nelems, const int* status, int cmp, V);               \
  size_t nvshmem_##name##_test_any##suffix(T* ivars, size_t nelems, const int* status, int cmp, V);            \
  size_t nvshmem_##name##_test_some##suffix(T* ivars, size_t nelems, size_t* indices, const int* status, int cmp, V);
#define WEFT_NVSHMEM_ALL_WAITS(T, name, a, b)                                      \
  WEFT_NVSHMEM_FUNCTION(void, name##_wait_until, (T * ivar, int cmp, T cmp_value)) \
  int nvshmem_##name##_test(T* ivar, int cmp, T cmp_value);                        \
  WEFT_NVSHMEM_WAITS(T, name, , T cmp_value)                                       \
  WEFT_NVSHMEM_WAITS(T, name, _vector, T* cmp_values)
WEFT_SHMEM_WAIT_TYPES(WEFT_NVSHMEM_ALL_WAITS, , )
#undef WEFT_NVSHMEM_ALL_WAITS
#undef WEFT_NVSHMEM_WAITS
uint64_t nvshmem_signal_wait_until(uint64_t* sig_addr, int cmp, uint64_t cmp_value);
void nvshmemx_signal_wait_until_on_stream(uint64_t* sig_addr, int cmp, uint64_t cmp_value, cudaStream_t stream);
WEFT_SHMEM_END

#endif
