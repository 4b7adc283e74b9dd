/* Every typed function once, made from the lists in the header; results are known in advance. */

#include <complex.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static int me, n, next, before;

#define RMA(T, name, a, b)                                                         \
  static void rma_##name(void) {                                                   \
    enum { kCount = 24 };                                                          \
    T* there = shmem_calloc(3 * kCount, sizeof(T));                                \
    T here[3 * kCount], back[3 * kCount];                                          \
    for (int i = 0; i < kCount; ++i) here[i] = (T)(me + i + 1);                    \
    shmem_##name##_put(there, here, kCount, next);                                 \
    shmem_##name##_p(&there[kCount], (T)(me + 100), next);                         \
    shmem_barrier_all();                                                           \
    for (int i = 0; i < kCount; ++i) CHECK(there[i] == (T)(before + i + 1));       \
    CHECK(there[kCount] == (T)(before + 100));                                     \
    CHECK(shmem_##name##_g(&there[kCount], next) == (T)(me + 100));                \
    shmem_##name##_get(back, there, kCount, next);                                 \
    for (int i = 0; i < kCount; ++i) CHECK(back[i] == here[i]);                    \
    shmem_barrier_all();                                                           \
    shmem_##name##_iput(there, here, 3, 2, kCount / 2, next);                      \
    shmem_ctx_##name##_put_nbi(SHMEM_CTX_DEFAULT, &there[1], here, 1, next);       \
    shmem_barrier_all();                                                           \
    for (int i = 0; i < kCount / 2; ++i) CHECK(there[3 * i] == (T)(before + 2 * i + 1)); \
    CHECK(there[1] == (T)(before + 1));                                            \
    shmem_##name##_iget(back, there, 2, 3, kCount / 2, next);                      \
    for (int i = 0; i < kCount / 2; ++i) CHECK(back[2 * i] == here[2 * i]);        \
    shmem_##name##_get_nbi(back, there, 1, next);                                  \
    shmem_quiet();                                                                 \
    CHECK(back[0] == here[0]);                                                     \
    shmem_barrier_all();                                                           \
    shmem_free(there);                                                             \
  }
WEFT_SHMEM_RMA_TYPES(RMA, , )

#define EXCHANGES(T, name, a, b)                                                                \
  static void exchanges_##name(void) {                                                          \
    enum { kCount = 5 };                                                                        \
    T* to = shmem_calloc((size_t)n * kCount, sizeof(T));                                        \
    T* from = shmem_calloc((size_t)n * kCount, sizeof(T));                                      \
    for (int i = 0; i < n * kCount; ++i) from[i] = (T)(me * 10 + i);                            \
    shmem_barrier_all();                                                                        \
    CHECK(shmem_##name##_fcollect(SHMEM_TEAM_WORLD, to, from, kCount) == 0);                    \
    for (int i = 0; i < n * kCount; ++i) CHECK(to[i] == (T)(i / kCount * 10 + i % kCount));     \
    CHECK(shmem_##name##_alltoall(SHMEM_TEAM_WORLD, to, from, kCount) == 0);                    \
    for (int i = 0; i < n * kCount; ++i) CHECK(to[i] == (T)(i / kCount * 10 + me * kCount + i % kCount)); \
    CHECK(shmem_##name##_broadcast(SHMEM_TEAM_WORLD, to, from, kCount, n - 1) == 0);            \
    for (int i = 0; i < kCount; ++i) CHECK(to[i] == (T)((n - 1) * 10 + i));                     \
    CHECK(shmem_##name##_collect(SHMEM_TEAM_WORLD, to, from, me == 0 ? 1 : 2) == 0);            \
    CHECK(to[0] == (T)0);                                                                       \
    for (int pe = 1; pe < n; ++pe) CHECK(to[2 * pe - 1] == (T)(pe * 10) && to[2 * pe] == (T)(pe * 10 + 1)); \
    shmem_barrier_all();                                                                        \
    shmem_free(from);                                                                           \
    shmem_free(to);                                                                             \
  }
WEFT_SHMEM_RMA_TYPES(EXCHANGES, , )

/* value(pe) on every PE, reduced by `op`; `expected` is computed with the same C operator, in the order of PEs. */
#define REDUCTION(T, name, op, combine)                                          \
  static void op##_##name(void) {                                                \
    T* to = shmem_calloc(3, sizeof(T));                                          \
    T* from = shmem_calloc(3, sizeof(T));                                        \
    for (int i = 0; i < 3; ++i) from[i] = (T)(me + i + 1);                       \
    CHECK(shmem_##name##_##op##_reduce(SHMEM_TEAM_WORLD, to, from, 3) == 0);     \
    for (int i = 0; i < 3; ++i) {                                                \
      T expected = (T)(i + 1);                                                   \
      for (int pe = 1; pe < n; ++pe) {                                           \
        const T other = (T)(pe + i + 1);                                         \
        expected = (T)(combine);                                                 \
      }                                                                          \
      CHECK(to[i] == expected);                                                  \
    }                                                                            \
    shmem_barrier_all();                                                         \
    shmem_free(from);                                                            \
    shmem_free(to);                                                              \
  }
#define AND_REDUCTION(T, name, a, b) REDUCTION(T, name, and, expected & other)
#define OR_REDUCTION(T, name, a, b) REDUCTION(T, name, or, expected | other)
#define XOR_REDUCTION(T, name, a, b) REDUCTION(T, name, xor, expected ^ other)
#define MIN_REDUCTION(T, name, a, b) REDUCTION(T, name, min, other < expected ? other : expected)
#define MAX_REDUCTION(T, name, a, b) REDUCTION(T, name, max, other > expected ? other : expected)
#define SUM_REDUCTION(T, name, a, b) REDUCTION(T, name, sum, expected + other)
#define PROD_REDUCTION(T, name, a, b) REDUCTION(T, name, prod, expected * other)
WEFT_SHMEM_LOGIC_TYPES(AND_REDUCTION, , )
WEFT_SHMEM_LOGIC_TYPES(OR_REDUCTION, , )
WEFT_SHMEM_LOGIC_TYPES(XOR_REDUCTION, , )
WEFT_SHMEM_ORDERED_TYPES(MIN_REDUCTION, , )
WEFT_SHMEM_ORDERED_TYPES(MAX_REDUCTION, , )
WEFT_SHMEM_ARITHMETIC_TYPES(SUM_REDUCTION, , )
WEFT_SHMEM_ARITHMETIC_TYPES(PROD_REDUCTION, , )

/* All PEs on PE 0's object, one kind of operation at a time. */
#define ATOMICS(T, name, a, b)                                                                   \
  static void atomics_##name(void) {                                                             \
    T* at = shmem_calloc(1, sizeof(T));                                                          \
    shmem_##name##_atomic_add(at, (T)(me + 1), 0);                                               \
    shmem_##name##_atomic_inc(at, 0);                                                            \
    shmem_barrier_all();                                                                         \
    const T sum = (T)(n * (n + 1) / 2 + n);                                                      \
    CHECK(shmem_##name##_atomic_fetch(at, 0) == sum);                                            \
    shmem_barrier_all();                                                                         \
    T old = 0, got = shmem_##name##_atomic_compare_swap(at, sum, (T)(1000 + me), 0);             \
    CHECK((got == sum) || (got >= 1000 && got < 1000 + (T)n));                                   \
    shmem_barrier_all();                                                                         \
    CHECK(shmem_##name##_atomic_fetch(at, 0) >= 1000);                                           \
    shmem_##name##_atomic_fetch_add_nbi(&old, at, 1, 0);                                         \
    shmem_quiet();                                                                               \
    CHECK(old >= 1000);                                                                          \
    shmem_barrier_all();                                                                         \
    if (me == 0) shmem_##name##_atomic_set(at, 7, n - 1);                                        \
    shmem_barrier_all();                                                                         \
    if (me == 0) CHECK(shmem_##name##_atomic_swap(at, 8, n - 1) == 7);                           \
    if (me == 0) CHECK(shmem_##name##_atomic_fetch_inc(at, n - 1) == 8);                         \
    if (me == 0) CHECK(shmem_##name##_atomic_fetch_add(at, 3, n - 1) == 9);                      \
    shmem_barrier_all();                                                                         \
    if (me == n - 1) CHECK(*at == 12);                                                           \
    shmem_free(at);                                                                              \
  }
WEFT_SHMEM_AMO_TYPES(ATOMICS, , )

#define BITWISE(T, name, a, b)                                               \
  static void bitwise_##name(void) {                                         \
    T* at = shmem_calloc(1, sizeof(T));                                      \
    shmem_##name##_atomic_or(at, (T)(1 << me), 0);                           \
    shmem_barrier_all();                                                     \
    CHECK(shmem_##name##_atomic_fetch(at, 0) == (T)((1 << n) - 1));          \
    shmem_barrier_all();                                                     \
    (void)shmem_##name##_atomic_fetch_xor(at, (T)(1 << me), 0);              \
    shmem_barrier_all();                                                     \
    CHECK(shmem_##name##_atomic_fetch(at, 0) == 0);                          \
    shmem_barrier_all();                                                     \
    if (me == 0) shmem_##name##_atomic_set(at, 0x70, 0);                     \
    if (me == 0) CHECK(shmem_##name##_atomic_fetch_and(at, 0x31, 0) == 0x70 && *at == 0x30); \
    shmem_barrier_all();                                                     \
    shmem_free(at);                                                          \
  }
WEFT_SHMEM_BITWISE_TYPES(BITWISE, , )

/* Everybody tells everybody; the waiting forms see it in turn. */
#define WAITS(T, name, a, b)                                                                             \
  static void waits_##name(void) {                                                                       \
    T* told = shmem_calloc((size_t)n, sizeof(T));                                                        \
    size_t* which = malloc((size_t)n * sizeof(size_t));                                                  \
    int* done = calloc((size_t)n, sizeof(int));                                                          \
    T* wanted = calloc((size_t)n, sizeof(T));                                                            \
    CHECK(shmem_##name##_test_any(told, (size_t)n, NULL, SHMEM_CMP_NE, 0) == SIZE_MAX);                  \
    CHECK(!shmem_##name##_test(told, SHMEM_CMP_GT, 0));                                                  \
    shmem_barrier_all();                                                                                 \
    for (int pe = 0; pe < n; ++pe) shmem_##name##_p(&told[me], (T)(me + 1), pe);                         \
    for (int i = 0; i < n; ++i) {                                                                        \
      const size_t at = shmem_##name##_wait_until_any(told, (size_t)n, done, SHMEM_CMP_NE, 0);           \
      CHECK(at < (size_t)n && !done[at] && told[at] == (T)(at + 1));                                     \
      done[at] = 1;                                                                                      \
    }                                                                                                    \
    CHECK(shmem_##name##_wait_until_any(told, (size_t)n, done, SHMEM_CMP_NE, 0) == SIZE_MAX);            \
    CHECK(shmem_##name##_wait_until_some(told, (size_t)n, which, done, SHMEM_CMP_NE, 0) == 0);           \
    CHECK(shmem_##name##_wait_until_some(told, (size_t)n, which, NULL, SHMEM_CMP_LE, (T)n) == (size_t)n); \
    shmem_##name##_wait_until_all(told, (size_t)n, NULL, SHMEM_CMP_GE, 1);                               \
    for (int i = 0; i < n; ++i) wanted[i] = (T)(i + 1);                                                  \
    shmem_##name##_wait_until_all_vector(told, (size_t)n, NULL, SHMEM_CMP_EQ, wanted);                   \
    CHECK(shmem_##name##_test_all_vector(told, (size_t)n, NULL, SHMEM_CMP_EQ, wanted));                  \
    CHECK(shmem_##name##_test_some_vector(told, (size_t)n, which, NULL, SHMEM_CMP_LT, wanted) == 0);     \
    CHECK(shmem_##name##_test_all(told, 0, NULL, SHMEM_CMP_EQ, 5));                                      \
    shmem_barrier_all();                                                                                 \
    free(wanted);                                                                                        \
    free(done);                                                                                          \
    free(which);                                                                                         \
    shmem_free(told);                                                                                    \
  }
WEFT_SHMEM_WAIT_TYPES(WAITS, , )

#define CALL_RMA(T, name, a, b) rma_##name(), exchanges_##name(), min_##name(), max_##name();
#define CALL_LOGIC(T, name, a, b) and_##name(), or_##name(), xor_##name();
#define CALL_ARITHMETIC(T, name, a, b) sum_##name(), prod_##name();
#define CALL_ATOMICS(T, name, a, b) atomics_##name();
#define CALL_BITWISE(T, name, a, b) bitwise_##name();
#define CALL_WAITS(T, name, a, b) waits_##name();

int main(void) {
  shmem_init();
  me = shmem_my_pe();
  n = shmem_n_pes();
  next = (me + 1) % n;
  before = (me + n - 1) % n;
  for (size_t alignment = 2; alignment <= (size_t)1 << 23; alignment *= 2) { /* on every PE, wherever it is mapped */
    char* block = shmem_align(alignment, 100);
    CHECK(block != NULL && (size_t)block % alignment == 0);
    shmem_free(block);
  }
  WEFT_SHMEM_RMA_TYPES(CALL_RMA, , )
  WEFT_SHMEM_LOGIC_TYPES(CALL_LOGIC, , )
  WEFT_SHMEM_ARITHMETIC_TYPES(CALL_ARITHMETIC, , )
  WEFT_SHMEM_AMO_TYPES(CALL_ATOMICS, , )
  WEFT_SHMEM_BITWISE_TYPES(CALL_BITWISE, , )
  WEFT_SHMEM_WAIT_TYPES(CALL_WAITS, , )
  shmem_finalize();
  return 0;
}
