#include "compat/onesided/collectives.h"

#include "compat/nvshmem/library.h"

using namespace weft;
using compat::nvshmem::library;
using compat::nvshmem::on_stream;
namespace onesided = compat::onesided;

namespace {

template <class T>
constexpr DataType type_of() {
  if constexpr (std::is_same_v<T, weft_nvshmem_half>)
    return DataType::kFloat16;
  else if constexpr (std::is_same_v<T, weft_nvshmem_bfloat16>)
    return DataType::kBfloat16;
  else
    return data_type_of<T>();
}

}  // namespace

#define EXCHANGE(function, kind, T, unit)                                                                            \
  WEFT_NVSHMEM_DEFINE_COLLECTIVE(function, (nvshmem_team_t team, T * dest, const T* source, size_t nelems),          \
                                 onesided::exchange(library(kCall), kCall, on.get(), Collective::kind, dest, source, \
                                                    pgas::bytes_of(nelems, unit)))
#define BROADCAST(function, T, unit)                                                                               \
  WEFT_NVSHMEM_DEFINE_COLLECTIVE(function,                                                                         \
                                 (nvshmem_team_t team, T * dest, const T* source, size_t nelems, int PE_root),     \
                                 onesided::exchange(library(kCall), kCall, on.get(), Collective::kBroadcast, dest, \
                                                    source, pgas::bytes_of(nelems, unit), PE_root))
#define TYPED(T, name, a, b)                          \
  EXCHANGE(name##_alltoall, kAllToAll, T, sizeof(T))  \
  EXCHANGE(name##_fcollect, kAllGather, T, sizeof(T)) \
  BROADCAST(name##_broadcast, T, sizeof(T))
WEFT_NVSHMEM_RMA_TYPES(TYPED, , )
EXCHANGE(alltoallmem, kAllToAll, void, 1)
EXCHANGE(fcollectmem, kAllGather, void, 1)
BROADCAST(broadcastmem, void, 1)

#define REDUCTION(function, kind, T, op)                                                                     \
  WEFT_NVSHMEM_DEFINE_COLLECTIVE(function, (nvshmem_team_t team, T * dest, const T* source, size_t nreduce), \
                                 onesided::reduce_known(library(kCall), kCall, on.get(), Collective::kind,   \
                                                        ReduceOp::op, dest, source, nreduce, type_of<T>()))
#define REDUCTIONS(T, name, operation, op)                  \
  REDUCTION(name##_##operation##_reduce, kAllReduce, T, op) \
  REDUCTION(name##_##operation##_reducescatter, kReduceScatter, T, op)
WEFT_SHMEM_LOGIC_TYPES(REDUCTIONS, and, kAnd)
WEFT_SHMEM_LOGIC_TYPES(REDUCTIONS, or, kOr)
WEFT_SHMEM_LOGIC_TYPES(REDUCTIONS, xor, kXor)
WEFT_NVSHMEM_REDUCE_TYPES(REDUCTIONS, min, kMin)
WEFT_NVSHMEM_REDUCE_TYPES(REDUCTIONS, max, kMax)
WEFT_NVSHMEM_REDUCE_TYPES(REDUCTIONS, sum, kSum)
WEFT_NVSHMEM_REDUCE_TYPES(REDUCTIONS, prod, kProd)

WEFT_NVSHMEM_DEFINE_COLLECTIVE(barrier, (nvshmem_team_t team), onesided::barrier(library(kCall), kCall, on.get()))
WEFT_NVSHMEM_DEFINE_COLLECTIVE(team_sync, (nvshmem_team_t team), onesided::synchronize(library(kCall), kCall, on.get()))

extern "C" {
void nvshmem_barrier_all(void) {
  onesided::barrier(library("nvshmem_barrier_all"), "nvshmem_barrier_all",
                    library("nvshmem_barrier_all").world().get());
}
void nvshmemx_barrier_all_on_stream(cudaStream_t stream) {
  constexpr const char* kCall = "nvshmemx_barrier_all_on_stream";
  on_stream(kCall, stream, [] { onesided::barrier(library(kCall), kCall, library(kCall).world().get()); });
}
void nvshmem_sync_all(void) {
  onesided::synchronize(library("nvshmem_sync_all"), "nvshmem_sync_all", library("nvshmem_sync_all").world().get());
}
void nvshmemx_sync_all_on_stream(cudaStream_t stream) {
  constexpr const char* kCall = "nvshmemx_sync_all_on_stream";
  on_stream(kCall, stream, [] { onesided::synchronize(library(kCall), kCall, library(kCall).world().get()); });
}
}
