#include <type_traits>

#include "compat/shmem/library.h"
#include "onesided/pgas/remote.h"

using namespace weft;
using compat::shmem::Library;
using compat::shmem::library;
using compat::shmem::require;

namespace {

// The team to run on; null: SHMEM_TEAM_INVALID.
api::Team* team_of(const char* call, shmem_team_t handle) {
  const weft_shmem_team* team = library(call).team(handle);
  return team == nullptr ? nullptr : team->team.get();
}

// Only what peers' data are written to has to be symmetric here: sources that are not, which the standard forbids and
// other libraries take, cost a copy and no harm.
void check(const char* call, const void* to, std::size_t bytes) {
  const Library& l = library(call);
  l.space().at(call, to, static_cast<Bytes>(bytes), l.pe->rank());
}

int exchange(const char* call, api::Team* team, Collective collective, void* to, const void* from, std::size_t bytes,
             Rank root = 0) {
  if (team == nullptr) return -1;
  if (bytes == 0) return 0;
  const auto ranks = static_cast<std::size_t>(team->ranks());
  check(call, to, collective == Collective::kBroadcast ? bytes : pgas::bytes_of(bytes, ranks));
  if (root < 0 || root >= team->ranks())
    library(call).space().misuse(call, fmt::format("PE_root {} is outside 0 … {}", root, team->ranks() - 1));
  require(
      call,
      team->run(
          {.collective = collective, .in = from, .out = to, .count = bytes, .type = DataType::kUint8, .root = root}));
  return 0;
}

int collect(const char* call, api::Team* team, void* to, const void* from, std::size_t bytes) {
  if (team == nullptr) return -1;
  if (bytes > 0) check(call, to, bytes);
  require(call, team->collect(to, from, bytes));
  return 0;
}

int all_to_all_strided(const char* call, api::Team* team, void* to, const void* from, ptrdiff_t to_stride,
                       ptrdiff_t from_stride, std::size_t count, std::size_t element) {
  if (team == nullptr) return -1;
  if (count == 0) return 0;
  if (to_stride < 1 || from_stride < 1) library(call).space().misuse(call, "a stride is less than 1");
  const std::size_t all = pgas::bytes_of(count, static_cast<std::size_t>(team->ranks()));
  check(call, to, pgas::detail::extent(all, to_stride, element));
  require(call, team->all_to_all_strided(static_cast<std::byte*>(to), static_cast<const std::byte*>(from),
                                         static_cast<std::size_t>(to_stride), static_cast<std::size_t>(from_stride),
                                         count, element));
  return 0;
}

template <class T>
struct Combine {
  template <ReduceOp op>
  static void apply(void* into, const void* with, std::size_t count) {
    T* a = static_cast<T*>(into);
    const T* b = static_cast<const T*>(with);
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (op == ReduceOp::kSum) a[i] = a[i] + b[i];
      if constexpr (op == ReduceOp::kProd) a[i] = a[i] * b[i];
      if constexpr (op == ReduceOp::kMin) a[i] = b[i] < a[i] ? b[i] : a[i];
      if constexpr (op == ReduceOp::kMax) a[i] = a[i] < b[i] ? b[i] : a[i];
    }
  }
};

template <class T>
constexpr bool is_complex = std::is_same_v<T, weft_shmem_complexf> || std::is_same_v<T, weft_shmem_complexd>;

template <ReduceOp op, class T>
int reduce(const char* call, api::Team* team, T* to, const T* from, std::size_t count) {
  if (team == nullptr) return -1;
  if (count == 0) return 0;
  check(call, to, pgas::bytes_of(count, sizeof(T)));
  if constexpr (is_complex<T> && op == ReduceOp::kSum) {  // a sum of pairs is a pair of sums
    using Part = std::conditional_t<std::is_same_v<T, weft_shmem_complexf>, float, double>;
    require(call, team->run({.collective = Collective::kAllReduce,
                             .in = from,
                             .out = to,
                             .count = 2 * count,
                             .type = data_type_of<Part>(),
                             .op = op}));
  } else if constexpr (is_complex<T> || std::is_same_v<T, long double>) {
    require(call, team->reduce_by(Combine<T>::template apply<op>, to, from, count, sizeof(T)));
  } else {
    require(call, team->run({.collective = Collective::kAllReduce,
                             .in = from,
                             .out = to,
                             .count = count,
                             .type = data_type_of<T>(),
                             .op = op}));
  }
  return 0;
}

void barrier(const char* call, api::Team& team) {
  pgas::quiet(library(call).space());
  require(call, team.barrier());
}

}  // namespace

WEFT_SHMEM_DEFINE(void, barrier_all, (void)) {
  barrier("shmem_barrier_all", library("shmem_barrier_all").pe->everybody());
}
WEFT_SHMEM_DEFINE(void, sync_all, (void)) {
  require("shmem_sync_all", library("shmem_sync_all").pe->everybody().barrier());
}
WEFT_SHMEM_DEFINE(int, team_sync, (shmem_team_t handle)) {
  api::Team* team = team_of("shmem_team_sync", handle);
  if (team == nullptr) return -1;
  require("shmem_team_sync", team->barrier());
  return 0;
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

WEFT_SHMEM_DEFINE(void, barrier, (ACTIVE_SET, long*)) {
  barrier("shmem_barrier", library("shmem_barrier").active_set("shmem_barrier", PE_start, logPE_stride, PE_size));
}
WEFT_SHMEM_DEFINE(void, sync, (ACTIVE_SET, long*)) {
  require("shmem_sync", library("shmem_sync").active_set("shmem_sync", PE_start, logPE_stride, PE_size).barrier());
}

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
