#ifndef WEFT_SHMEM_COLLECTIVES_H
#define WEFT_SHMEM_COLLECTIVES_H

/* Collectives on teams; 0 is success. dest and source are symmetric, and equal or apart. */

#include "weft/shmem/types.h"

WEFT_SHMEM_BEGIN
WEFT_SHMEM_FUNCTION(void, barrier_all, (void))
WEFT_SHMEM_FUNCTION(void, sync_all, (void))
WEFT_SHMEM_FUNCTION(int, team_sync, (shmem_team_t team))

#define WEFT_SHMEM_EXCHANGES(T, prefix, suffix)                                                                     \
  WEFT_SHMEM_FUNCTION(int, prefix##broadcast##suffix,                                                               \
                      (shmem_team_t team, T * dest, const T* source, size_t nelems, int PE_root))                   \
  WEFT_SHMEM_FUNCTION(int, prefix##collect##suffix, (shmem_team_t team, T * dest, const T* source, size_t nelems))  \
  WEFT_SHMEM_FUNCTION(int, prefix##fcollect##suffix, (shmem_team_t team, T * dest, const T* source, size_t nelems)) \
  WEFT_SHMEM_FUNCTION(int, prefix##alltoall##suffix, (shmem_team_t team, T * dest, const T* source, size_t nelems)) \
  WEFT_SHMEM_FUNCTION(int, prefix##alltoalls##suffix,                                                               \
                      (shmem_team_t team, T * dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems))
#define WEFT_SHMEM_TYPED_EXCHANGES(T, name, a, b) WEFT_SHMEM_EXCHANGES(T, name##_, )
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED_EXCHANGES, , )
WEFT_SHMEM_EXCHANGES(void, , mem)
#undef WEFT_SHMEM_TYPED_EXCHANGES
#undef WEFT_SHMEM_EXCHANGES

#define WEFT_SHMEM_REDUCTION(T, name, operation, b) \
  WEFT_SHMEM_FUNCTION(int, name##_##operation##_reduce, (shmem_team_t team, T * dest, const T* source, size_t nreduce))
WEFT_SHMEM_LOGIC_TYPES(WEFT_SHMEM_REDUCTION, and, )
WEFT_SHMEM_LOGIC_TYPES(WEFT_SHMEM_REDUCTION, or, )
WEFT_SHMEM_LOGIC_TYPES(WEFT_SHMEM_REDUCTION, xor, )
WEFT_SHMEM_ORDERED_TYPES(WEFT_SHMEM_REDUCTION, min, )
WEFT_SHMEM_ORDERED_TYPES(WEFT_SHMEM_REDUCTION, max, )
WEFT_SHMEM_ARITHMETIC_TYPES(WEFT_SHMEM_REDUCTION, sum, )
WEFT_SHMEM_ARITHMETIC_TYPES(WEFT_SHMEM_REDUCTION, prod, )
#undef WEFT_SHMEM_REDUCTION
WEFT_SHMEM_END

#endif
