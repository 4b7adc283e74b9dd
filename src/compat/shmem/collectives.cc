#include "compat/onesided/collectives.h"
#include "compat/shmem/library.h"

using namespace weft;
using compat::shmem::library;
namespace onesided = compat::onesided;

namespace {

// The team to run on; null: SHMEM_TEAM_INVALID.
api::Team* team_of(const char* call, shmem_team_t handle) {
  const weft_shmem_team* team = compat::shmem::team(call, handle);
  return team == nullptr ? nullptr : team->team.get();
}

int exchange(const char* call, api::Team* team, Collective collective, void* to, const void* from, std::size_t bytes,
             Rank root = 0) {
  return onesided::exchange(library(call), call, team, collective, to, from, bytes, root);
}
int collect(const char* call, api::Team* team, void* to, const void* from, std::size_t bytes) {
  return onesided::collect(library(call), call, team, to, from, bytes);
}
int all_to_all_strided(const char* call, api::Team* team, void* to, const void* from, ptrdiff_t to_stride,
                       ptrdiff_t from_stride, std::size_t count, std::size_t element) {
  return onesided::all_to_all_strided(library(call), call, team, to, from, to_stride, from_stride, count, element);
}
template <ReduceOp op, class T>
int reduce(const char* call, api::Team* team, T* to, const T* from, std::size_t count) {
  return onesided::reduce<op>(library(call), call, team, to, from, count);
}
int barrier(const char* call, api::Team* team) { return onesided::barrier(library(call), call, team); }
int synchronize(const char* call, api::Team* team) { return onesided::synchronize(library(call), call, team); }

}  // namespace

WEFT_SHMEM_DEFINE(void, barrier_all, (void)) {
  barrier("shmem_barrier_all", &library("shmem_barrier_all").pe->everybody());
}
WEFT_SHMEM_DEFINE(void, sync_all, (void)) { synchronize("shmem_sync_all", &library("shmem_sync_all").pe->everybody()); }
WEFT_SHMEM_DEFINE(int, team_sync, (shmem_team_t handle)) {
  return synchronize("shmem_team_sync", team_of("shmem_team_sync", handle));
}

#define TEAM(function) "shmem_" #function, team_of("shmem_" #function, team)
#define DEFINE_EXCHANGES(T, prefix, suffix, unit)                                                                   \
  WEFT_SHMEM_DEFINE(int, prefix##broadcast##suffix,                                                                 \
                    (shmem_team_t team, T * dest, const T* source, size_t nelems, int root)) {                      \
    return exchange(TEAM(prefix##broadcast##suffix), Collective::kBroadcast, dest, source,                          \
                    pgas::bytes_of(nelems, unit), root);                                                            \
  }                                                                                                                 \
  WEFT_SHMEM_DEFINE(int, prefix##collect##suffix, (shmem_team_t team, T * dest, const T* source, size_t nelems)) {  \
    return collect(TEAM(prefix##collect##suffix), dest, source, pgas::bytes_of(nelems, unit));                      \
  }                                                                                                                 \
  WEFT_SHMEM_DEFINE(int, prefix##fcollect##suffix, (shmem_team_t team, T * dest, const T* source, size_t nelems)) { \
    return exchange(TEAM(prefix##fcollect##suffix), Collective::kAllGather, dest, source,                           \
                    pgas::bytes_of(nelems, unit));                                                                  \
  }                                                                                                                 \
  WEFT_SHMEM_DEFINE(int, prefix##alltoall##suffix, (shmem_team_t team, T * dest, const T* source, size_t nelems)) { \
    return exchange(TEAM(prefix##alltoall##suffix), Collective::kAllToAll, dest, source,                            \
                    pgas::bytes_of(nelems, unit));                                                                  \
  }                                                                                                                 \
  WEFT_SHMEM_DEFINE(int, prefix##alltoalls##suffix,                                                                 \
                    (shmem_team_t team, T * dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems)) {  \
    return all_to_all_strided(TEAM(prefix##alltoalls##suffix), dest, source, dst, sst, nelems, unit);               \
  }
#define DEFINE_TYPED_EXCHANGES(T, name, a, b) DEFINE_EXCHANGES(T, name##_, , sizeof(T))
WEFT_SHMEM_RMA_TYPES(DEFINE_TYPED_EXCHANGES, , )
DEFINE_EXCHANGES(void, , mem, 1)

#define DEFINE_REDUCTION(T, name, operation, op)                                           \
  WEFT_SHMEM_DEFINE(int, name##_##operation##_reduce,                                      \
                    (shmem_team_t team, T * dest, const T* source, size_t nreduce)) {      \
    return reduce<ReduceOp::op>(TEAM(name##_##operation##_reduce), dest, source, nreduce); \
  }
WEFT_SHMEM_LOGIC_TYPES(DEFINE_REDUCTION, and, kAnd)
WEFT_SHMEM_LOGIC_TYPES(DEFINE_REDUCTION, or, kOr)
WEFT_SHMEM_LOGIC_TYPES(DEFINE_REDUCTION, xor, kXor)
WEFT_SHMEM_ORDERED_TYPES(DEFINE_REDUCTION, min, kMin)
WEFT_SHMEM_ORDERED_TYPES(DEFINE_REDUCTION, max, kMax)
WEFT_SHMEM_ARITHMETIC_TYPES(DEFINE_REDUCTION, sum, kSum)
WEFT_SHMEM_ARITHMETIC_TYPES(DEFINE_REDUCTION, prod, kProd)

// --- active sets ---

#define ACTIVE_SET int PE_start, int logPE_stride, int PE_size
#define SET(function) \
  "shmem_" #function, &library("shmem_" #function).active_set("shmem_" #function, PE_start, logPE_stride, PE_size)

WEFT_SHMEM_DEFINE(void, barrier, (ACTIVE_SET, long*)) { barrier(SET(barrier)); }
WEFT_SHMEM_DEFINE(void, sync, (ACTIVE_SET, long*)) { synchronize(SET(sync)); }

namespace {

// Unlike a team's, this broadcast leaves the root's dest alone.
void broadcast(const char* call, api::Team* team, void* to, const void* from, std::size_t bytes, int root) {
  exchange(call, team, Collective::kBroadcast, team->rank() == root ? const_cast<void*>(from) : to, from, bytes, root);
}

}  // namespace

#define DEFINE_OLD_EXCHANGES(bits)                                                                              \
  WEFT_SHMEM_DEFINE(void, broadcast##bits,                                                                      \
                    (void* dest, const void* source, size_t nelems, int PE_root, ACTIVE_SET, long*)) {          \
    broadcast(SET(broadcast##bits), dest, source, pgas::bytes_of(nelems, bits / 8), PE_root);                   \
  }                                                                                                             \
  WEFT_SHMEM_DEFINE(void, collect##bits, (void* dest, const void* source, size_t nelems, ACTIVE_SET, long*)) {  \
    collect(SET(collect##bits), dest, source, pgas::bytes_of(nelems, bits / 8));                                \
  }                                                                                                             \
  WEFT_SHMEM_DEFINE(void, fcollect##bits, (void* dest, const void* source, size_t nelems, ACTIVE_SET, long*)) { \
    exchange(SET(fcollect##bits), Collective::kAllGather, dest, source, pgas::bytes_of(nelems, bits / 8));      \
  }                                                                                                             \
  WEFT_SHMEM_DEFINE(void, alltoall##bits, (void* dest, const void* source, size_t nelems, ACTIVE_SET, long*)) { \
    exchange(SET(alltoall##bits), Collective::kAllToAll, dest, source, pgas::bytes_of(nelems, bits / 8));       \
  }                                                                                                             \
  WEFT_SHMEM_DEFINE(                                                                                            \
      void, alltoalls##bits,                                                                                    \
      (void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, ACTIVE_SET, long*)) {       \
    all_to_all_strided(SET(alltoalls##bits), dest, source, dst, sst, nelems, bits / 8);                         \
  }
DEFINE_OLD_EXCHANGES(32)
DEFINE_OLD_EXCHANGES(64)

#define DEFINE_TO_ALL(T, name, operation, op)                                                                \
  WEFT_SHMEM_DEFINE(void, name##_##operation##_to_all,                                                       \
                    (T * dest, const T* source, int nreduce, ACTIVE_SET, T*, long*)) {                       \
    reduce<ReduceOp::op>(SET(name##_##operation##_to_all), dest, source, static_cast<std::size_t>(nreduce)); \
  }
WEFT_SHMEM_OLD_INTEGERS(DEFINE_TO_ALL, and, kAnd)
WEFT_SHMEM_OLD_INTEGERS(DEFINE_TO_ALL, or, kOr)
WEFT_SHMEM_OLD_INTEGERS(DEFINE_TO_ALL, xor, kXor)
WEFT_SHMEM_OLD_REALS(DEFINE_TO_ALL, min, kMin)
WEFT_SHMEM_OLD_REALS(DEFINE_TO_ALL, max, kMax)
WEFT_SHMEM_OLD_NUMBERS(DEFINE_TO_ALL, sum, kSum)
WEFT_SHMEM_OLD_NUMBERS(DEFINE_TO_ALL, prod, kProd)
