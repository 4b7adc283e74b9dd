#include "compat/shmem/library.h"

using namespace weft;
using compat::onesided::kOne;
using compat::onesided::kZero;
using compat::shmem::Library;
using compat::shmem::library;
using pgas::AtomicOp;

namespace {

template <AtomicOp op, class T>
T fetched(const char* call, shmem_ctx_t ctx, const T* at, T operand, T compare, int pe) {
  const Library& l = library(call);
  return pgas::atomic<op>(l.space(), call, at, operand, compare, l.job_rank(call, ctx, pe));
}
// The same where the old value is not wanted: a peer far away need not answer.
template <AtomicOp op, class T>
void updated(const char* call, shmem_ctx_t ctx, const T* at, T operand, T compare, int pe) {
  const Library& l = library(call);
  pgas::atomic<op>(l.space(), call, at, operand, compare, l.job_rank(call, ctx, pe), false);
}

}  // namespace

#define LIST(...) __VA_ARGS__
// One function with and without a context. `op` of `operand` (and `compare`) on `at`; `keep` says what becomes of the
// old value.
#define DEFINE_ATOMIC(result, type, function, parameters, keep, op, at, operand, compare)      \
  WEFT_SHMEM_DEFINE(result, function, (LIST parameters, int pe)) {                             \
    keep<AtomicOp::op, type>("shmem_" #function, SHMEM_CTX_DEFAULT, at, operand, compare, pe); \
  }                                                                                            \
  WEFT_SHMEM_DEFINE(result, ctx_##function, (shmem_ctx_t ctx, LIST parameters, int pe)) {      \
    keep<AtomicOp::op, type>("shmem_ctx_" #function, ctx, at, operand, compare, pe);           \
  }

#define DEFINE_ANY(T, name, a, b)                                                                                      \
  DEFINE_ATOMIC(T, T, name##_atomic_fetch, (const T* source), return fetched, kFetch, source, kZero<T>, kZero<T>)      \
  DEFINE_ATOMIC(void, T, name##_atomic_set, (T * dest, T value), updated, kSet, dest, value, kZero<T>)                 \
  DEFINE_ATOMIC(T, T, name##_atomic_swap, (T * dest, T value), return fetched, kSwap, dest, value, kZero<T>)           \
  DEFINE_ATOMIC(void, T, name##_atomic_fetch_nbi, (T * fetch, const T* source), *fetch = fetched, kFetch, source,      \
                kZero<T>, kZero<T>)                                                                                    \
  DEFINE_ATOMIC(void, T, name##_atomic_swap_nbi, (T * fetch, T * dest, T value), *fetch = fetched, kSwap, dest, value, \
                kZero<T>)
WEFT_SHMEM_AMO_EXTENDED(DEFINE_ANY, , )

#define DEFINE_INTEGER(T, name, a, b)                                                                               \
  DEFINE_ATOMIC(T, T, name##_atomic_compare_swap, (T * dest, T cond, T value), return fetched, kCompareSwap, dest,  \
                value, cond)                                                                                        \
  DEFINE_ATOMIC(T, T, name##_atomic_fetch_inc, (T * dest), return fetched, kAdd, dest, kOne<T>, kZero<T>)           \
  DEFINE_ATOMIC(void, T, name##_atomic_inc, (T * dest), updated, kAdd, dest, kOne<T>, kZero<T>)                     \
  DEFINE_ATOMIC(T, T, name##_atomic_fetch_add, (T * dest, T value), return fetched, kAdd, dest, value, kZero<T>)    \
  DEFINE_ATOMIC(void, T, name##_atomic_add, (T * dest, T value), updated, kAdd, dest, value, kZero<T>)              \
  DEFINE_ATOMIC(void, T, name##_atomic_compare_swap_nbi, (T * fetch, T * dest, T cond, T value), *fetch = fetched,  \
                kCompareSwap, dest, value, cond)                                                                    \
  DEFINE_ATOMIC(void, T, name##_atomic_fetch_inc_nbi, (T * fetch, T * dest), *fetch = fetched, kAdd, dest, kOne<T>, \
                kZero<T>)                                                                                           \
  DEFINE_ATOMIC(void, T, name##_atomic_fetch_add_nbi, (T * fetch, T * dest, T value), *fetch = fetched, kAdd, dest, \
                value, kZero<T>)
WEFT_SHMEM_AMO_TYPES(DEFINE_INTEGER, , )

#define DEFINE_BITWISE(T, name, operation, op)                                                                         \
  DEFINE_ATOMIC(T, T, name##_atomic_fetch_##operation, (T * dest, T value), return fetched, op, dest, value, kZero<T>) \
  DEFINE_ATOMIC(void, T, name##_atomic_##operation, (T * dest, T value), updated, op, dest, value, kZero<T>)           \
  DEFINE_ATOMIC(void, T, name##_atomic_fetch_##operation##_nbi, (T * fetch, T * dest, T value), *fetch = fetched, op,  \
                dest, value, kZero<T>)
WEFT_SHMEM_BITWISE_TYPES(DEFINE_BITWISE, and, kAnd)
WEFT_SHMEM_BITWISE_TYPES(DEFINE_BITWISE, or, kOr)
WEFT_SHMEM_BITWISE_TYPES(DEFINE_BITWISE, xor, kXor)

// Names of OpenSHMEM 1.3.
#define DEFINE_OLD(result, type, function, parameters, keep, op, at, operand, compare)         \
  WEFT_SHMEM_DEFINE(result, function, (LIST parameters, int pe)) {                             \
    keep<AtomicOp::op, type>("shmem_" #function, SHMEM_CTX_DEFAULT, at, operand, compare, pe); \
  }
#define DEFINE_OLD_ANY(T, name, a, b)                                                               \
  DEFINE_OLD(T, T, name##_fetch, (const T* dest), return fetched, kFetch, dest, kZero<T>, kZero<T>) \
  DEFINE_OLD(void, T, name##_set, (T * dest, T value), updated, kSet, dest, value, kZero<T>)        \
  DEFINE_OLD(T, T, name##_swap, (T * dest, T value), return fetched, kSwap, dest, value, kZero<T>)
WEFT_SHMEM_AMO_EXTENDED(DEFINE_OLD_ANY, , )
#define DEFINE_OLD_INTEGER(T, name, a, b)                                                                      \
  DEFINE_OLD(T, T, name##_cswap, (T * dest, T cond, T value), return fetched, kCompareSwap, dest, value, cond) \
  DEFINE_OLD(T, T, name##_finc, (T * dest), return fetched, kAdd, dest, kOne<T>, kZero<T>)                     \
  DEFINE_OLD(void, T, name##_inc, (T * dest), updated, kAdd, dest, kOne<T>, kZero<T>)                          \
  DEFINE_OLD(T, T, name##_fadd, (T * dest, T value), return fetched, kAdd, dest, value, kZero<T>)              \
  DEFINE_OLD(void, T, name##_add, (T * dest, T value), updated, kAdd, dest, value, kZero<T>)
WEFT_SHMEM_AMO_TYPES(DEFINE_OLD_INTEGER, , )
