#ifndef WEFT_SHMEM_DEPRECATED_H
#define WEFT_SHMEM_DEPRECATED_H

/* What OpenSHMEM 1.5 still has from earlier versions. Active sets: PE_size PEs from PE_start on, 2^logPE_stride apart.
 */

#include "weft/shmem/types.h"

WEFT_SHMEM_BEGIN
void start_pes(int npes);
int _my_pe(void);
int _num_pes(void);
void* shmalloc(size_t size);
void shfree(void* ptr);
void* shrealloc(void* ptr, size_t size);
void* shmemalign(size_t alignment, size_t size);

#define WEFT_SHMEM_ACTIVE_SET int PE_start, int logPE_stride, int PE_size
WEFT_SHMEM_FUNCTION(void, barrier, (WEFT_SHMEM_ACTIVE_SET, long* pSync))
WEFT_SHMEM_FUNCTION(void, sync, (WEFT_SHMEM_ACTIVE_SET, long* pSync))

#define WEFT_SHMEM_OLD_EXCHANGES(bits)                                                                     \
  WEFT_SHMEM_FUNCTION(                                                                                     \
      void, broadcast##bits,                                                                               \
      (void* dest, const void* source, size_t nelems, int PE_root, WEFT_SHMEM_ACTIVE_SET, long* pSync))    \
  WEFT_SHMEM_FUNCTION(void, collect##bits,                                                                 \
                      (void* dest, const void* source, size_t nelems, WEFT_SHMEM_ACTIVE_SET, long* pSync)) \
  WEFT_SHMEM_FUNCTION(void, fcollect##bits,                                                                \
                      (void* dest, const void* source, size_t nelems, WEFT_SHMEM_ACTIVE_SET, long* pSync)) \
  WEFT_SHMEM_FUNCTION(void, alltoall##bits,                                                                \
                      (void* dest, const void* source, size_t nelems, WEFT_SHMEM_ACTIVE_SET, long* pSync)) \
  WEFT_SHMEM_FUNCTION(void, alltoalls##bits,                                                               \
                      (void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems,        \
                       WEFT_SHMEM_ACTIVE_SET, long* pSync))
WEFT_SHMEM_OLD_EXCHANGES(32)
WEFT_SHMEM_OLD_EXCHANGES(64)
#undef WEFT_SHMEM_OLD_EXCHANGES

#define WEFT_SHMEM_TO_ALL(T, name, operation, b)         \
  WEFT_SHMEM_FUNCTION(void, name##_##operation##_to_all, \
                      (T * dest, const T* source, int nreduce, WEFT_SHMEM_ACTIVE_SET, T* pWrk, long* pSync))
#define WEFT_SHMEM_OLD_INTEGERS(X, a, b) \
  X(short, short, a, b) X(int, int, a, b) X(long, long, a, b) X(long long, longlong, a, b)
#define WEFT_SHMEM_OLD_REALS(X, a, b) \
  WEFT_SHMEM_OLD_INTEGERS(X, a, b)    \
  X(float, float, a, b) X(double, double, a, b) X(long double, longdouble, a, b)
#define WEFT_SHMEM_OLD_NUMBERS(X, a, b) WEFT_SHMEM_OLD_REALS(X, a, b) WEFT_SHMEM_COMPLEX_TYPES(X, a, b)
WEFT_SHMEM_OLD_INTEGERS(WEFT_SHMEM_TO_ALL, and, )
WEFT_SHMEM_OLD_INTEGERS(WEFT_SHMEM_TO_ALL, or, )
WEFT_SHMEM_OLD_INTEGERS(WEFT_SHMEM_TO_ALL, xor, )
WEFT_SHMEM_OLD_REALS(WEFT_SHMEM_TO_ALL, min, )
WEFT_SHMEM_OLD_REALS(WEFT_SHMEM_TO_ALL, max, )
WEFT_SHMEM_OLD_NUMBERS(WEFT_SHMEM_TO_ALL, sum, )
WEFT_SHMEM_OLD_NUMBERS(WEFT_SHMEM_TO_ALL, prod, )
#undef WEFT_SHMEM_TO_ALL

#define WEFT_SHMEM_OLD_ATOMICS(T, name, a, b)                               \
  WEFT_SHMEM_FUNCTION(T, name##_cswap, (T * dest, T cond, T value, int pe)) \
  WEFT_SHMEM_FUNCTION(T, name##_finc, (T * dest, int pe))                   \
  WEFT_SHMEM_FUNCTION(void, name##_inc, (T * dest, int pe))                 \
  WEFT_SHMEM_FUNCTION(T, name##_fadd, (T * dest, T value, int pe))          \
  WEFT_SHMEM_FUNCTION(void, name##_add, (T * dest, T value, int pe))
WEFT_SHMEM_AMO_TYPES(WEFT_SHMEM_OLD_ATOMICS, , )
#undef WEFT_SHMEM_OLD_ATOMICS
#define WEFT_SHMEM_OLD_ATOMICS_ANY(T, name, a, b)                    \
  WEFT_SHMEM_FUNCTION(T, name##_fetch, (const T* dest, int pe))      \
  WEFT_SHMEM_FUNCTION(void, name##_set, (T * dest, T value, int pe)) \
  WEFT_SHMEM_FUNCTION(T, name##_swap, (T * dest, T value, int pe))
WEFT_SHMEM_AMO_EXTENDED(WEFT_SHMEM_OLD_ATOMICS_ANY, , )
#undef WEFT_SHMEM_OLD_ATOMICS_ANY

#define WEFT_SHMEM_OLD_WAIT(T, name, a, b) WEFT_SHMEM_FUNCTION(void, name##_wait, (T * ivar, T cmp_value))
WEFT_SHMEM_OLD_INTEGERS(WEFT_SHMEM_OLD_WAIT, , )
#undef WEFT_SHMEM_OLD_WAIT
WEFT_SHMEM_FUNCTION(void, wait, (long* ivar, long cmp_value))

/* There is nothing to be done about caches on any machine weft runs on. */
WEFT_SHMEM_FUNCTION(void, clear_cache_inv, (void))
WEFT_SHMEM_FUNCTION(void, set_cache_inv, (void))
WEFT_SHMEM_FUNCTION(void, clear_cache_line_inv, (void* dest))
WEFT_SHMEM_FUNCTION(void, set_cache_line_inv, (void* dest))
WEFT_SHMEM_FUNCTION(void, udcflush, (void))
WEFT_SHMEM_FUNCTION(void, udcflush_line, (void* dest))
WEFT_SHMEM_END

#define _SHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define _SHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
#define _SHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN
#define _SHMEM_VENDOR_STRING SHMEM_VENDOR_STRING
#define _SHMEM_CMP_EQ SHMEM_CMP_EQ
#define _SHMEM_CMP_NE SHMEM_CMP_NE
#define _SHMEM_CMP_GT SHMEM_CMP_GT
#define _SHMEM_CMP_GE SHMEM_CMP_GE
#define _SHMEM_CMP_LT SHMEM_CMP_LT
#define _SHMEM_CMP_LE SHMEM_CMP_LE
#define _SHMEM_SYNC_VALUE SHMEM_SYNC_VALUE
#define _SHMEM_SYNC_SIZE SHMEM_SYNC_SIZE
#define _SHMEM_BARRIER_SYNC_SIZE SHMEM_BARRIER_SYNC_SIZE
#define _SHMEM_BCAST_SYNC_SIZE SHMEM_BCAST_SYNC_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE SHMEM_COLLECT_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE SHMEM_REDUCE_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE

#endif
