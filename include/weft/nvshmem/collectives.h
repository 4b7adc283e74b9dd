#ifndef WEFT_NVSHMEM_COLLECTIVES_H
#define WEFT_NVSHMEM_COLLECTIVES_H

/* Collectives on teams: 0, or nonzero where the team is invalid. A reducescatter leaves nreduce elements on each PE. */

#include "weft/nvshmem/types.h"

WEFT_SHMEM_BEGIN

#define WEFT_NVSHMEM_EXCHANGES(T, name)                                                                       \
  WEFT_NVSHMEM_FUNCTION(int, name##alltoall, (nvshmem_team_t team, T * dest, const T* source, size_t nelems)) \
  WEFT_NVSHMEM_FUNCTION(int, name##fcollect, (nvshmem_team_t team, T * dest, const T* source, size_t nelems)) \
  WEFT_NVSHMEM_FUNCTION(int, name##broadcast,                                                                 \
                        (nvshmem_team_t team, T * dest, const T* source, size_t nelems, int PE_root))
#define WEFT_NVSHMEM_TYPED_EXCHANGES(T, name, a, b) WEFT_NVSHMEM_EXCHANGES(T, name##_)
WEFT_NVSHMEM_RMA_TYPES(WEFT_NVSHMEM_TYPED_EXCHANGES, , )
#undef WEFT_NVSHMEM_TYPED_EXCHANGES
#undef WEFT_NVSHMEM_EXCHANGES
WEFT_NVSHMEM_FUNCTION(int, alltoallmem, (nvshmem_team_t team, void* dest, const void* source, size_t nelems))
WEFT_NVSHMEM_FUNCTION(int, fcollectmem, (nvshmem_team_t team, void* dest, const void* source, size_t nelems))
WEFT_NVSHMEM_FUNCTION(int, broadcastmem,
                      (nvshmem_team_t team, void* dest, const void* source, size_t nelems, int PE_root))

#define WEFT_NVSHMEM_REDUCTIONS(T, name, operation, b)                                    \
  WEFT_NVSHMEM_FUNCTION(int, name##_##operation##_reduce,                                 \
                        (nvshmem_team_t team, T * dest, const T* source, size_t nreduce)) \
  WEFT_NVSHMEM_FUNCTION(int, name##_##operation##_reducescatter,                          \
                        (nvshmem_team_t team, T * dest, const T* source, size_t nreduce))
WEFT_SHMEM_LOGIC_TYPES(WEFT_NVSHMEM_REDUCTIONS, and, )
WEFT_SHMEM_LOGIC_TYPES(WEFT_NVSHMEM_REDUCTIONS, or, )
WEFT_SHMEM_LOGIC_TYPES(WEFT_NVSHMEM_REDUCTIONS, xor, )
WEFT_NVSHMEM_REDUCE_TYPES(WEFT_NVSHMEM_REDUCTIONS, min, )
WEFT_NVSHMEM_REDUCE_TYPES(WEFT_NVSHMEM_REDUCTIONS, max, )
WEFT_NVSHMEM_REDUCE_TYPES(WEFT_NVSHMEM_REDUCTIONS, sum, )
WEFT_NVSHMEM_REDUCE_TYPES(WEFT_NVSHMEM_REDUCTIONS, prod, )
#undef WEFT_NVSHMEM_REDUCTIONS

WEFT_NVSHMEM_FUNCTION(int, barrier, (nvshmem_team_t team))
WEFT_NVSHMEM_FUNCTION(int, team_sync, (nvshmem_team_t team))
#define nvshmem_sync nvshmem_team_sync
void nvshmem_barrier_all(void);
void nvshmemx_barrier_all_on_stream(cudaStream_t stream);
void nvshmem_sync_all(void);
void nvshmemx_sync_all_on_stream(cudaStream_t stream);
WEFT_SHMEM_END

#endif
