#ifndef WEFT_SHMEM_GENERIC_CXX_H
#define WEFT_SHMEM_GENERIC_CXX_H

// The type-generic functions as overloads, one for each C type.

#include "weft/shmem/atomics.h"
#include "weft/shmem/collectives.h"
#include "weft/shmem/deprecated.h"
#include "weft/shmem/memory.h"
#include "weft/shmem/rma.h"
#include "weft/shmem/sync.h"

#ifdef __cplusplus

// Overloads with and without a context.
#define WEFT_SHMEM_OVERLOAD(result, generic, typed, parameters, arguments)                                       \
  inline result shmem_##generic(WEFT_SHMEM_LIST parameters) { return shmem_##typed(WEFT_SHMEM_LIST arguments); } \
  inline result shmem_##generic(shmem_ctx_t ctx, WEFT_SHMEM_LIST parameters) {                                   \
    return shmem_ctx_##typed(ctx, WEFT_SHMEM_LIST arguments);                                                    \
  }
#define WEFT_SHMEM_LIST(...) __VA_ARGS__

#define WEFT_SHMEM_CXX_RMA(T, name, a, b)                                                                             \
  WEFT_SHMEM_OVERLOAD(void, put, name##_put, (T * d, const T* s, size_t n, int pe), (d, s, n, pe))                    \
  WEFT_SHMEM_OVERLOAD(void, get, name##_get, (T * d, const T* s, size_t n, int pe), (d, s, n, pe))                    \
  WEFT_SHMEM_OVERLOAD(void, put_nbi, name##_put_nbi, (T * d, const T* s, size_t n, int pe), (d, s, n, pe))            \
  WEFT_SHMEM_OVERLOAD(void, get_nbi, name##_get_nbi, (T * d, const T* s, size_t n, int pe), (d, s, n, pe))            \
  WEFT_SHMEM_OVERLOAD(void, p, name##_p, (T * d, T v, int pe), (d, v, pe))                                            \
  WEFT_SHMEM_OVERLOAD(T, g, name##_g, (const T* s, int pe), (s, pe))                                                  \
  WEFT_SHMEM_OVERLOAD(void, iput, name##_iput, (T * d, const T* s, ptrdiff_t dst, ptrdiff_t sst, size_t n, int pe),   \
                      (d, s, dst, sst, n, pe))                                                                        \
  WEFT_SHMEM_OVERLOAD(void, iget, name##_iget, (T * d, const T* s, ptrdiff_t dst, ptrdiff_t sst, size_t n, int pe),   \
                      (d, s, dst, sst, n, pe))                                                                        \
  WEFT_SHMEM_OVERLOAD(void, put_signal, name##_put_signal,                                                            \
                      (T * d, const T* s, size_t n, uint64_t* sig, uint64_t v, int op, int pe),                       \
                      (d, s, n, sig, v, op, pe))                                                                      \
  WEFT_SHMEM_OVERLOAD(void, put_signal_nbi, name##_put_signal_nbi,                                                    \
                      (T * d, const T* s, size_t n, uint64_t* sig, uint64_t v, int op, int pe),                       \
                      (d, s, n, sig, v, op, pe))                                                                      \
  inline int shmem_broadcast(shmem_team_t t, T* d, const T* s, size_t n, int root) {                                  \
    return shmem_##name##_broadcast(t, d, s, n, root);                                                                \
  }                                                                                                                   \
  inline int shmem_collect(shmem_team_t t, T* d, const T* s, size_t n) { return shmem_##name##_collect(t, d, s, n); } \
  inline int shmem_fcollect(shmem_team_t t, T* d, const T* s, size_t n) {                                             \
    return shmem_##name##_fcollect(t, d, s, n);                                                                       \
  }                                                                                                                   \
  inline int shmem_alltoall(shmem_team_t t, T* d, const T* s, size_t n) {                                             \
    return shmem_##name##_alltoall(t, d, s, n);                                                                       \
  }                                                                                                                   \
  inline int shmem_alltoalls(shmem_team_t t, T* d, const T* s, ptrdiff_t dst, ptrdiff_t sst, size_t n) {              \
    return shmem_##name##_alltoalls(t, d, s, dst, sst, n);                                                            \
  }
WEFT_SHMEM_DISTINCT(WEFT_SHMEM_CXX_RMA, , )
#undef WEFT_SHMEM_CXX_RMA

#define WEFT_SHMEM_CXX_AMO_ANY(T, name, a, b)                                                                   \
  WEFT_SHMEM_OVERLOAD(T, atomic_fetch, name##_atomic_fetch, (const T* s, int pe), (s, pe))                      \
  WEFT_SHMEM_OVERLOAD(void, atomic_set, name##_atomic_set, (T * d, T v, int pe), (d, v, pe))                    \
  WEFT_SHMEM_OVERLOAD(T, atomic_swap, name##_atomic_swap, (T * d, T v, int pe), (d, v, pe))                     \
  WEFT_SHMEM_OVERLOAD(void, atomic_fetch_nbi, name##_atomic_fetch_nbi, (T * f, const T* s, int pe), (f, s, pe)) \
  WEFT_SHMEM_OVERLOAD(void, atomic_swap_nbi, name##_atomic_swap_nbi, (T * f, T * d, T v, int pe), (f, d, v, pe))
WEFT_SHMEM_AMO_DISTINCT(WEFT_SHMEM_CXX_AMO_ANY, , )
WEFT_SHMEM_AMO_FLOATS(WEFT_SHMEM_CXX_AMO_ANY, , )
#undef WEFT_SHMEM_CXX_AMO_ANY

#define WEFT_SHMEM_CXX_AMO(T, name, a, b)                                                                              \
  WEFT_SHMEM_OVERLOAD(T, atomic_compare_swap, name##_atomic_compare_swap, (T * d, T c, T v, int pe), (d, c, v, pe))    \
  WEFT_SHMEM_OVERLOAD(T, atomic_fetch_inc, name##_atomic_fetch_inc, (T * d, int pe), (d, pe))                          \
  WEFT_SHMEM_OVERLOAD(void, atomic_inc, name##_atomic_inc, (T * d, int pe), (d, pe))                                   \
  WEFT_SHMEM_OVERLOAD(T, atomic_fetch_add, name##_atomic_fetch_add, (T * d, T v, int pe), (d, v, pe))                  \
  WEFT_SHMEM_OVERLOAD(void, atomic_add, name##_atomic_add, (T * d, T v, int pe), (d, v, pe))                           \
  WEFT_SHMEM_OVERLOAD(void, atomic_compare_swap_nbi, name##_atomic_compare_swap_nbi, (T * f, T * d, T c, T v, int pe), \
                      (f, d, c, v, pe))                                                                                \
  WEFT_SHMEM_OVERLOAD(void, atomic_fetch_inc_nbi, name##_atomic_fetch_inc_nbi, (T * f, T * d, int pe), (f, d, pe))     \
  WEFT_SHMEM_OVERLOAD(void, atomic_fetch_add_nbi, name##_atomic_fetch_add_nbi, (T * f, T * d, T v, int pe),            \
                      (f, d, v, pe))
WEFT_SHMEM_AMO_DISTINCT(WEFT_SHMEM_CXX_AMO, , )
#undef WEFT_SHMEM_CXX_AMO

#define WEFT_SHMEM_CXX_BITS(T, name, op, b)                                                                       \
  WEFT_SHMEM_OVERLOAD(T, atomic_fetch_##op, name##_atomic_fetch_##op, (T * d, T v, int pe), (d, v, pe))           \
  WEFT_SHMEM_OVERLOAD(void, atomic_##op, name##_atomic_##op, (T * d, T v, int pe), (d, v, pe))                    \
  WEFT_SHMEM_OVERLOAD(void, atomic_fetch_##op##_nbi, name##_atomic_fetch_##op##_nbi, (T * f, T * d, T v, int pe), \
                      (f, d, v, pe))
#define WEFT_SHMEM_CXX_BITWISE(X, a, b) \
  X(unsigned int, uint, a, b)           \
  X(unsigned long, ulong, a, b) X(unsigned long long, ulonglong, a, b) X(int32_t, int32, a, b) X(int64_t, int64, a, b)
WEFT_SHMEM_CXX_BITWISE(WEFT_SHMEM_CXX_BITS, and, )
WEFT_SHMEM_CXX_BITWISE(WEFT_SHMEM_CXX_BITS, or, )
WEFT_SHMEM_CXX_BITWISE(WEFT_SHMEM_CXX_BITS, xor, )
#undef WEFT_SHMEM_CXX_BITWISE
#undef WEFT_SHMEM_CXX_BITS
#undef WEFT_SHMEM_OVERLOAD
#undef WEFT_SHMEM_LIST

#define WEFT_SHMEM_CXX_WAIT(T, name, a, b)                                                              \
  inline void shmem_wait_until(T* v, int cmp, T x) { shmem_##name##_wait_until(v, cmp, x); }            \
  inline int shmem_test(T* v, int cmp, T x) { return shmem_##name##_test(v, cmp, x); }                  \
  inline void shmem_wait_until_all(T* v, size_t n, const int* st, int cmp, T x) {                       \
    shmem_##name##_wait_until_all(v, n, st, cmp, x);                                                    \
  }                                                                                                     \
  inline size_t shmem_wait_until_any(T* v, size_t n, const int* st, int cmp, T x) {                     \
    return shmem_##name##_wait_until_any(v, n, st, cmp, x);                                             \
  }                                                                                                     \
  inline size_t shmem_wait_until_some(T* v, size_t n, size_t* i, const int* st, int cmp, T x) {         \
    return shmem_##name##_wait_until_some(v, n, i, st, cmp, x);                                         \
  }                                                                                                     \
  inline void shmem_wait_until_all_vector(T* v, size_t n, const int* st, int cmp, T* x) {               \
    shmem_##name##_wait_until_all_vector(v, n, st, cmp, x);                                             \
  }                                                                                                     \
  inline size_t shmem_wait_until_any_vector(T* v, size_t n, const int* st, int cmp, T* x) {             \
    return shmem_##name##_wait_until_any_vector(v, n, st, cmp, x);                                      \
  }                                                                                                     \
  inline size_t shmem_wait_until_some_vector(T* v, size_t n, size_t* i, const int* st, int cmp, T* x) { \
    return shmem_##name##_wait_until_some_vector(v, n, i, st, cmp, x);                                  \
  }                                                                                                     \
  inline int shmem_test_all(T* v, size_t n, const int* st, int cmp, T x) {                              \
    return shmem_##name##_test_all(v, n, st, cmp, x);                                                   \
  }                                                                                                     \
  inline size_t shmem_test_any(T* v, size_t n, const int* st, int cmp, T x) {                           \
    return shmem_##name##_test_any(v, n, st, cmp, x);                                                   \
  }                                                                                                     \
  inline size_t shmem_test_some(T* v, size_t n, size_t* i, const int* st, int cmp, T x) {               \
    return shmem_##name##_test_some(v, n, i, st, cmp, x);                                               \
  }                                                                                                     \
  inline int shmem_test_all_vector(T* v, size_t n, const int* st, int cmp, T* x) {                      \
    return shmem_##name##_test_all_vector(v, n, st, cmp, x);                                            \
  }                                                                                                     \
  inline size_t shmem_test_any_vector(T* v, size_t n, const int* st, int cmp, T* x) {                   \
    return shmem_##name##_test_any_vector(v, n, st, cmp, x);                                            \
  }                                                                                                     \
  inline size_t shmem_test_some_vector(T* v, size_t n, size_t* i, const int* st, int cmp, T* x) {       \
    return shmem_##name##_test_some_vector(v, n, i, st, cmp, x);                                        \
  }
WEFT_SHMEM_INTEGERS(WEFT_SHMEM_CXX_WAIT, , )
#undef WEFT_SHMEM_CXX_WAIT

#define WEFT_SHMEM_CXX_REDUCE(T, name, op, b)                                  \
  inline int shmem_##op##_reduce(shmem_team_t t, T* d, const T* s, size_t n) { \
    return shmem_##name##_##op##_reduce(t, d, s, n);                           \
  }
#define WEFT_SHMEM_CXX_LOGIC(X, a, b)    \
  X(unsigned char, uchar, a, b)          \
  X(unsigned short, ushort, a, b)        \
  X(unsigned int, uint, a, b)            \
  X(unsigned long, ulong, a, b)          \
  X(unsigned long long, ulonglong, a, b) \
  X(int8_t, int8, a, b) X(int16_t, int16, a, b) X(int32_t, int32, a, b) X(int64_t, int64, a, b)
WEFT_SHMEM_CXX_LOGIC(WEFT_SHMEM_CXX_REDUCE, and, )
WEFT_SHMEM_CXX_LOGIC(WEFT_SHMEM_CXX_REDUCE, or, )
WEFT_SHMEM_CXX_LOGIC(WEFT_SHMEM_CXX_REDUCE, xor, )
WEFT_SHMEM_DISTINCT(WEFT_SHMEM_CXX_REDUCE, min, )
WEFT_SHMEM_DISTINCT(WEFT_SHMEM_CXX_REDUCE, max, )
WEFT_SHMEM_DISTINCT(WEFT_SHMEM_CXX_REDUCE, sum, )
WEFT_SHMEM_DISTINCT(WEFT_SHMEM_CXX_REDUCE, prod, )
WEFT_SHMEM_COMPLEX_TYPES(WEFT_SHMEM_CXX_REDUCE, sum, )
WEFT_SHMEM_COMPLEX_TYPES(WEFT_SHMEM_CXX_REDUCE, prod, )
#undef WEFT_SHMEM_CXX_LOGIC
#undef WEFT_SHMEM_CXX_REDUCE

#define WEFT_SHMEM_CXX_OLD(T, name, a, b)                                                    \
  inline T shmem_cswap(T* d, T c, T v, int pe) { return shmem_##name##_cswap(d, c, v, pe); } \
  inline T shmem_finc(T* d, int pe) { return shmem_##name##_finc(d, pe); }                   \
  inline void shmem_inc(T* d, int pe) { shmem_##name##_inc(d, pe); }                         \
  inline T shmem_fadd(T* d, T v, int pe) { return shmem_##name##_fadd(d, v, pe); }           \
  inline void shmem_add(T* d, T v, int pe) { shmem_##name##_add(d, v, pe); }
#define WEFT_SHMEM_CXX_OLD_ANY(T, name, a, b)                                      \
  inline T shmem_fetch(const T* d, int pe) { return shmem_##name##_fetch(d, pe); } \
  inline void shmem_set(T* d, T v, int pe) { shmem_##name##_set(d, v, pe); }       \
  inline T shmem_swap(T* d, T v, int pe) { return shmem_##name##_swap(d, v, pe); }
WEFT_SHMEM_AMO_DISTINCT(WEFT_SHMEM_CXX_OLD, , )
WEFT_SHMEM_AMO_DISTINCT(WEFT_SHMEM_CXX_OLD_ANY, , )
WEFT_SHMEM_AMO_FLOATS(WEFT_SHMEM_CXX_OLD_ANY, , )
#undef WEFT_SHMEM_CXX_OLD_ANY
#undef WEFT_SHMEM_CXX_OLD

inline int shmem_sync(shmem_team_t team) { return shmem_team_sync(team); }

#endif
#endif
