#ifndef WEFT_SHMEM_GENERIC_C11_H
#define WEFT_SHMEM_GENERIC_C11_H

/* Type-generic macros: the function is chosen by the first pointer's type, after a context or team if there is one. */

#include "weft/shmem/memory.h"

#if !defined(__cplusplus)

#define WEFT_SHMEM_ARG1(...) WEFT_SHMEM_ARG1_(__VA_ARGS__, 0)
#define WEFT_SHMEM_ARG1_(a, ...) a
#define WEFT_SHMEM_ARG2(...) WEFT_SHMEM_ARG2_(__VA_ARGS__, 0, 0)
#define WEFT_SHMEM_ARG2_(a, b, ...) b

/* Never called: what _Generic needs for the argument that it does not choose by. */
void weft_shmem_no_such_type(void);

#define WEFT_SHMEM_CASE(T, name, before, after) \
  T* : before##name##after, const T* : before##name##after, volatile T* : before##name##after,

#define WEFT_SHMEM_BY_CONTEXT(TYPES, after, ...)                                                        \
  _Generic((WEFT_SHMEM_ARG1(__VA_ARGS__)), shmem_ctx_t                                                  \
           : _Generic((WEFT_SHMEM_ARG2(__VA_ARGS__)), TYPES(WEFT_SHMEM_CASE, shmem_ctx_, after) default \
                      : weft_shmem_no_such_type),                                                       \
             TYPES(WEFT_SHMEM_CASE, shmem_, after) default                                              \
           : weft_shmem_no_such_type)(__VA_ARGS__)

#define shmem_put(...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_DISTINCT, _put, __VA_ARGS__)
#define shmem_get(...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_DISTINCT, _get, __VA_ARGS__)
#define shmem_put_nbi(...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_DISTINCT, _put_nbi, __VA_ARGS__)
#define shmem_get_nbi(...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_DISTINCT, _get_nbi, __VA_ARGS__)
#define shmem_p(...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_DISTINCT, _p, __VA_ARGS__)
#define shmem_g(...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_DISTINCT, _g, __VA_ARGS__)
#define shmem_iput(...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_DISTINCT, _iput, __VA_ARGS__)
#define shmem_iget(...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_DISTINCT, _iget, __VA_ARGS__)
#define shmem_put_signal(...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_DISTINCT, _put_signal, __VA_ARGS__)
#define shmem_put_signal_nbi(...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_DISTINCT, _put_signal_nbi, __VA_ARGS__)

#define WEFT_SHMEM_AMO_ANY(X, a, b) WEFT_SHMEM_AMO_DISTINCT(X, a, b) WEFT_SHMEM_AMO_FLOATS(X, a, b)
#define shmem_atomic_fetch(...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_AMO_ANY, _atomic_fetch, __VA_ARGS__)
#define shmem_atomic_set(...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_AMO_ANY, _atomic_set, __VA_ARGS__)
#define shmem_atomic_swap(...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_AMO_ANY, _atomic_swap, __VA_ARGS__)
#define shmem_atomic_fetch_nbi(...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_AMO_ANY, _atomic_fetch_nbi, __VA_ARGS__)
#define shmem_atomic_swap_nbi(...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_AMO_ANY, _atomic_swap_nbi, __VA_ARGS__)
#define WEFT_SHMEM_AMO(after, ...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_AMO_DISTINCT, after, __VA_ARGS__)
#define shmem_atomic_compare_swap(...) WEFT_SHMEM_AMO(_atomic_compare_swap, __VA_ARGS__)
#define shmem_atomic_fetch_inc(...) WEFT_SHMEM_AMO(_atomic_fetch_inc, __VA_ARGS__)
#define shmem_atomic_inc(...) WEFT_SHMEM_AMO(_atomic_inc, __VA_ARGS__)
#define shmem_atomic_fetch_add(...) WEFT_SHMEM_AMO(_atomic_fetch_add, __VA_ARGS__)
#define shmem_atomic_add(...) WEFT_SHMEM_AMO(_atomic_add, __VA_ARGS__)
#define shmem_atomic_compare_swap_nbi(...) WEFT_SHMEM_AMO(_atomic_compare_swap_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_inc_nbi(...) WEFT_SHMEM_AMO(_atomic_fetch_inc_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_add_nbi(...) WEFT_SHMEM_AMO(_atomic_fetch_add_nbi, __VA_ARGS__)
/* The signed ones of 32 and 64 bits are int and long. */
#define WEFT_SHMEM_BITWISE(X, a, b) \
  X(unsigned int, uint, a, b)       \
  X(unsigned long, ulong, a, b) X(unsigned long long, ulonglong, a, b) X(int32_t, int32, a, b) X(int64_t, int64, a, b)
#define WEFT_SHMEM_BITS(after, ...) WEFT_SHMEM_BY_CONTEXT(WEFT_SHMEM_BITWISE, after, __VA_ARGS__)
#define shmem_atomic_fetch_and(...) WEFT_SHMEM_BITS(_atomic_fetch_and, __VA_ARGS__)
#define shmem_atomic_and(...) WEFT_SHMEM_BITS(_atomic_and, __VA_ARGS__)
#define shmem_atomic_fetch_or(...) WEFT_SHMEM_BITS(_atomic_fetch_or, __VA_ARGS__)
#define shmem_atomic_or(...) WEFT_SHMEM_BITS(_atomic_or, __VA_ARGS__)
#define shmem_atomic_fetch_xor(...) WEFT_SHMEM_BITS(_atomic_fetch_xor, __VA_ARGS__)
#define shmem_atomic_xor(...) WEFT_SHMEM_BITS(_atomic_xor, __VA_ARGS__)
#define shmem_atomic_fetch_and_nbi(...) WEFT_SHMEM_BITS(_atomic_fetch_and_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_or_nbi(...) WEFT_SHMEM_BITS(_atomic_fetch_or_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_xor_nbi(...) WEFT_SHMEM_BITS(_atomic_fetch_xor_nbi, __VA_ARGS__)

#define WEFT_SHMEM_BY_FIRST(TYPES, after, ...)                                           \
  _Generic((WEFT_SHMEM_ARG1(__VA_ARGS__)), TYPES(WEFT_SHMEM_CASE, shmem_, after) default \
           : weft_shmem_no_such_type)(__VA_ARGS__)
#define WEFT_SHMEM_WAIT(after, ...) WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_INTEGERS, after, __VA_ARGS__)
#define shmem_wait_until(...) WEFT_SHMEM_WAIT(_wait_until, __VA_ARGS__)
#define shmem_wait_until_all(...) WEFT_SHMEM_WAIT(_wait_until_all, __VA_ARGS__)
#define shmem_wait_until_any(...) WEFT_SHMEM_WAIT(_wait_until_any, __VA_ARGS__)
#define shmem_wait_until_some(...) WEFT_SHMEM_WAIT(_wait_until_some, __VA_ARGS__)
#define shmem_wait_until_all_vector(...) WEFT_SHMEM_WAIT(_wait_until_all_vector, __VA_ARGS__)
#define shmem_wait_until_any_vector(...) WEFT_SHMEM_WAIT(_wait_until_any_vector, __VA_ARGS__)
#define shmem_wait_until_some_vector(...) WEFT_SHMEM_WAIT(_wait_until_some_vector, __VA_ARGS__)
#define shmem_test(...) WEFT_SHMEM_WAIT(_test, __VA_ARGS__)
#define shmem_test_all(...) WEFT_SHMEM_WAIT(_test_all, __VA_ARGS__)
#define shmem_test_any(...) WEFT_SHMEM_WAIT(_test_any, __VA_ARGS__)
#define shmem_test_some(...) WEFT_SHMEM_WAIT(_test_some, __VA_ARGS__)
#define shmem_test_all_vector(...) WEFT_SHMEM_WAIT(_test_all_vector, __VA_ARGS__)
#define shmem_test_any_vector(...) WEFT_SHMEM_WAIT(_test_any_vector, __VA_ARGS__)
#define shmem_test_some_vector(...) WEFT_SHMEM_WAIT(_test_some_vector, __VA_ARGS__)

#define WEFT_SHMEM_BY_SECOND(TYPES, after, ...)                                          \
  _Generic((WEFT_SHMEM_ARG2(__VA_ARGS__)), TYPES(WEFT_SHMEM_CASE, shmem_, after) default \
           : weft_shmem_no_such_type)(__VA_ARGS__)
#define shmem_broadcast(...) WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_DISTINCT, _broadcast, __VA_ARGS__)
#define shmem_collect(...) WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_DISTINCT, _collect, __VA_ARGS__)
#define shmem_fcollect(...) WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_DISTINCT, _fcollect, __VA_ARGS__)
#define shmem_alltoall(...) WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_DISTINCT, _alltoall, __VA_ARGS__)
#define shmem_alltoalls(...) WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_DISTINCT, _alltoalls, __VA_ARGS__)
#define WEFT_SHMEM_LOGIC(X, a, b)        \
  X(unsigned char, uchar, a, b)          \
  X(unsigned short, ushort, a, b)        \
  X(unsigned int, uint, a, b)            \
  X(unsigned long, ulong, a, b)          \
  X(unsigned long long, ulonglong, a, b) \
  X(int8_t, int8, a, b) X(int16_t, int16, a, b) X(int32_t, int32, a, b) X(int64_t, int64, a, b)
#define WEFT_SHMEM_ARITHMETIC(X, a, b) WEFT_SHMEM_DISTINCT(X, a, b) WEFT_SHMEM_COMPLEX_TYPES(X, a, b)
#define shmem_and_reduce(...) WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_LOGIC, _and_reduce, __VA_ARGS__)
#define shmem_or_reduce(...) WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_LOGIC, _or_reduce, __VA_ARGS__)
#define shmem_xor_reduce(...) WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_LOGIC, _xor_reduce, __VA_ARGS__)
#define shmem_min_reduce(...) WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_DISTINCT, _min_reduce, __VA_ARGS__)
#define shmem_max_reduce(...) WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_DISTINCT, _max_reduce, __VA_ARGS__)
#define shmem_sum_reduce(...) WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_ARITHMETIC, _sum_reduce, __VA_ARGS__)
#define shmem_prod_reduce(...) WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_ARITHMETIC, _prod_reduce, __VA_ARGS__)

#define shmem_sync(...) \
  _Generic((WEFT_SHMEM_ARG1(__VA_ARGS__)), shmem_team_t : shmem_team_sync, default : shmem_sync)(__VA_ARGS__)

/* Deprecated names. */
#define shmem_fetch(...) WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_AMO_ANY, _fetch, __VA_ARGS__)
#define shmem_set(...) WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_AMO_ANY, _set, __VA_ARGS__)
#define shmem_swap(...) WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_AMO_ANY, _swap, __VA_ARGS__)
#define shmem_cswap(...) WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_AMO_DISTINCT, _cswap, __VA_ARGS__)
#define shmem_finc(...) WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_AMO_DISTINCT, _finc, __VA_ARGS__)
#define shmem_inc(...) WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_AMO_DISTINCT, _inc, __VA_ARGS__)
#define shmem_fadd(...) WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_AMO_DISTINCT, _fadd, __VA_ARGS__)
#define shmem_add(...) WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_AMO_DISTINCT, _add, __VA_ARGS__)

#endif
#endif
