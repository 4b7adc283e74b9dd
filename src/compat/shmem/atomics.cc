#include "compat/shmem/library.h"

using namespace weft;
using compat::shmem::Library;
using compat::shmem::library;
using pgas::AtomicOp;

namespace {

template <class T>
constexpr T kZero{};
template <class T>
constexpr T kOne{1};

template <AtomicOp op, class T>
T apply(const char* call, shmem_ctx_t ctx, const T* at, T operand, T compare, int pe) {
  const Library& l = library(call);
  return pgas::atomic<op>(l.space(), call, at, operand, compare, l.job_rank(call, ctx, pe));
}

}  // namespace

#define LIST(...) __VA_ARGS__
// One function with and without a context. `op` of `operand` (and `compare`) on `at`; `keep` says what becomes of the
// old value.
#define DEFINE_ATOMIC(result, type, function, parameters, keep, op, at, operand, compare)            \
  WEFT_SHMEM_DEFINE(result, function, (LIST parameters, int pe)) {                                   \
    keep apply<AtomicOp::op, type>("shmem_" #function, SHMEM_CTX_DEFAULT, at, operand, compare, pe); \
  }                                                                                                  \
  WEFT_SHMEM_DEFINE(result, ctx_##function, (shmem_ctx_t ctx, LIST parameters, int pe)) {            \
    keep apply<AtomicOp::op, type>("shmem_ctx_" #function, ctx, at, operand, compare, pe);           \
  }

#define DEFINE_ANY(T, name, a, b)                                                                                   \
  DEFINE_ATOMIC(T, T, name##_atomic_fetch, (const T* source), return, kFetch, source, kZero<T>, kZero<T>)           \
  DEFINE_ATOMIC(void, T, name##_atomic_set, (T * dest, T value), (void), kSet, dest, value, kZero<T>)               \
  DEFINE_ATOMIC(T, T, name##_atomic_swap, (T * dest, T value), return, kSwap, dest, value, kZero<T>)                \
  DEFINE_ATOMIC(void, T, name##_atomic_fetch_nbi, (T * fetch, const T* source), *fetch =, kFetch, source, kZero<T>, \
                kZero<T>)                                                                                           \
  DEFINE_ATOMIC(void, T, name##_atomic_swap_nbi, (T * fetch, T * dest, T value), *fetch =, kSwap, dest, value, kZero<T>)
WEFT_SHMEM_AMO_EXTENDED(DEFINE_ANY, , )

#define DEFINE_INTEGER(T, name, a, b)                                                                                 \
  DEFINE_ATOMIC(T, T, name##_atomic_compare_swap, (T * dest, T cond, T value), return, kCompareSwap, dest, value,     \
                cond)                                                                                                 \
  DEFINE_ATOMIC(T, T, name##_atomic_fetch_inc, (T * dest), return, kAdd, dest, kOne<T>, kZero<T>)                     \
  DEFINE_ATOMIC(void, T, name##_atomic_inc, (T * dest), (void), kAdd, dest, kOne<T>, kZero<T>)                        \
  DEFINE_ATOMIC(T, T, name##_atomic_fetch_add, (T * dest, T value), return, kAdd, dest, value, kZero<T>)              \
  DEFINE_ATOMIC(void, T, name##_atomic_add, (T * dest, T value), (void), kAdd, dest, value, kZero<T>)                 \
  DEFINE_ATOMIC(void, T, name##_atomic_compare_swap_nbi, (T * fetch, T * dest, T cond, T value), *fetch =,            \
                kCompareSwap, dest, value, cond)                                                                      \
  DEFINE_ATOMIC(void, T, name##_atomic_fetch_inc_nbi, (T * fetch, T * dest), *fetch =, kAdd, dest, kOne<T>, kZero<T>) \
  DEFINE_ATOMIC(void, T, name##_atomic_fetch_add_nbi, (T * fetch, T * dest, T value), *fetch =, kAdd, dest, value,    \
                kZero<T>)
WEFT_SHMEM_AMO_TYPES(DEFINE_INTEGER, , )

#define DEFINE_BITWISE(T, name, operation, op)                                                                      \
  DEFINE_ATOMIC(T, T, name##_atomic_fetch_##operation, (T * dest, T value), return, op, dest, value, kZero<T>)      \
  DEFINE_ATOMIC(void, T, name##_atomic_##operation, (T * dest, T value), (void), op, dest, value, kZero<T>)         \
  DEFINE_ATOMIC(void, T, name##_atomic_fetch_##operation##_nbi, (T * fetch, T * dest, T value), *fetch =, op, dest, \
                value, kZero<T>)
WEFT_SHMEM_BITWISE_TYPES(DEFINE_BITWISE, and, kAnd)
WEFT_SHMEM_BITWISE_TYPES(DEFINE_BITWISE, or, kOr)
WEFT_SHMEM_BITWISE_TYPES(DEFINE_BITWISE, xor, kXor)

// Names of OpenSHMEM 1.3.
#define DEFINE_OLD(result, type, function, parameters, keep, op, at, operand, compare)               \
  WEFT_SHMEM_DEFINE(result, function, (LIST parameters, int pe)) {                                   \
    keep apply<AtomicOp::op, type>("shmem_" #function, SHMEM_CTX_DEFAULT, at, operand, compare, pe); \
  }
#define DEFINE_OLD_ANY(T, name, a, b)                                                       \
  DEFINE_OLD(T, T, name##_fetch, (const T* dest), return, kFetch, dest, kZero<T>, kZero<T>) \
  DEFINE_OLD(void, T, name##_set, (T * dest, T value), (void), kSet, dest, value, kZero<T>) \
  DEFINE_OLD(T, T, name##_swap, (T * dest, T value), return, kSwap, dest, value, kZero<T>)
WEFT_SHMEM_AMO_EXTENDED(DEFINE_OLD_ANY, , )
#define DEFINE_OLD_INTEGER(T, name, a, b)                                                              \
  DEFINE_OLD(T, T, name##_cswap, (T * dest, T cond, T value), return, kCompareSwap, dest, value, cond) \
  DEFINE_OLD(T, T, name##_finc, (T * dest), return, kAdd, dest, kOne<T>, kZero<T>)                     \
  DEFINE_OLD(void, T, name##_inc, (T * dest), (void), kAdd, dest, kOne<T>, kZero<T>)                   \
  DEFINE_OLD(T, T, name##_fadd, (T * dest, T value), return, kAdd, dest, value, kZero<T>)              \
  DEFINE_OLD(void, T, name##_add, (T * dest, T value), (void), kAdd, dest, value, kZero<T>)
WEFT_SHMEM_AMO_TYPES(DEFINE_OLD_INTEGER, , )
