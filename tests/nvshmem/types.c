/* Every typed function once, made from the lists in the header; results are known in advance. */

#include "check.h"

static int me, n, next, before;

#define RMA(T, name, a, b)                                                                       \
  static void rma_##name(cudaStream_t stream) {                                                  \
    enum { kCount = 12 };                                                                        \
    T* there = nvshmem_calloc(3 * kCount, sizeof(T));                                            \
    T here[kCount], back[kCount];                                                                \
    for (int i = 0; i < kCount; ++i) memset(&here[i], me + i + 1, sizeof(T));                    \
    nvshmem_##name##_put(there, here, kCount, next);                                             \
    nvshmem_##name##_p(&there[kCount], here[0], next);                                           \
    nvshmemx_##name##_iput_on_stream(&there[kCount + 1], here, 2, 1, kCount / 2, next, stream);  \
    nvshmemx_##name##_put_nbi_on_stream(&there[kCount * 2 + 1], here, 4, next, stream);          \
    nvshmemx_barrier_all_on_stream(stream);                                                      \
    CHECK(weft_nvshmem_stream_synchronize(stream) == 0);                                         \
    for (int i = 0; i < kCount; ++i) memset(&back[i], before + i + 1, sizeof(T));                \
    CHECK(memcmp(there, back, sizeof back) == 0);                                                \
    CHECK(memcmp(&there[kCount], back, sizeof(T)) == 0);                                         \
    for (int i = 0; i < kCount / 2; ++i)                                                         \
      CHECK(memcmp(&there[kCount + 1 + 2 * i], &back[i], sizeof(T)) == 0);                       \
    const T one = nvshmem_##name##_g(&there[1], next), two = nvshmemx_##name##_g_on_stream(&there[2], next, stream); \
    CHECK(memcmp(&one, &here[1], sizeof(T)) == 0 && memcmp(&two, &here[2], sizeof(T)) == 0);     \
    nvshmem_##name##_get(back, there, kCount, next);                                             \
    CHECK(memcmp(back, here, sizeof back) == 0);                                                 \
    nvshmem_barrier_all();                                                                       \
    CHECK(nvshmemx_##name##_broadcast_on_stream(NVSHMEM_TEAM_WORLD, there, here, 2, 0, stream) == 0); \
    CHECK(weft_nvshmem_stream_synchronize(stream) == 0);                                         \
    for (int i = 0; i < 2; ++i) memset(&back[i], i + 1, sizeof(T));                              \
    CHECK(memcmp(there, back, 2 * sizeof(T)) == 0);                                              \
    nvshmem_barrier_all();                                                                       \
    nvshmem_free(there);                                                                         \
  }
WEFT_NVSHMEM_RMA_TYPES(RMA, , )

#define REDUCTIONS(T, name, a, b)                                                                \
  static void reductions_##name(void) {                                                          \
    T* to = nvshmem_calloc(4, sizeof(T));                                                        \
    T from[16];                                                                                  \
    for (int i = 0; i < 16; ++i) from[i] = (T)(me + 1);                                          \
    CHECK(nvshmem_##name##_sum_reduce(NVSHMEM_TEAM_WORLD, to, from, 4) == 0);                    \
    for (int i = 0; i < 4; ++i) CHECK(to[i] == (T)(n * (n + 1) / 2));                            \
    CHECK(nvshmem_##name##_max_reducescatter(NVSHMEM_TEAM_WORLD, to, from, 2) == 0);             \
    for (int i = 0; i < 2; ++i) CHECK(to[i] == (T)n);                                            \
    CHECK(nvshmem_##name##_min_reduce(NVSHMEM_TEAM_WORLD, to, from, 4) == 0 && to[3] == (T)1);   \
    nvshmem_barrier_all();                                                                       \
    nvshmem_free(to);                                                                            \
  }
WEFT_SHMEM_LOGIC_TYPES(REDUCTIONS, , )
WEFT_SHMEM_AMO_FLOATS(REDUCTIONS, , )

#define WAITS(T, name, a, b)                                                                      \
  static void waits_##name(cudaStream_t stream) {                                                 \
    T* told = nvshmem_calloc((size_t)n, sizeof(T));                                               \
    for (int pe = 0; pe < n; ++pe) nvshmem_##name##_p(&told[me], (T)(me + 1), pe);                \
    nvshmem_##name##_wait_until_all(told, (size_t)n, NULL, NVSHMEM_CMP_GE, 1);                    \
    nvshmemx_##name##_wait_until_on_stream(&told[before], NVSHMEM_CMP_GT, 0, stream);             \
    CHECK(weft_nvshmem_stream_synchronize(stream) == 0);                                          \
    CHECK(nvshmem_##name##_test(&told[before], NVSHMEM_CMP_LE, (T)n));                            \
    CHECK(!nvshmem_##name##_test(&told[before], NVSHMEM_CMP_LT, 1));                              \
    CHECK(nvshmem_##name##_test_any(told, (size_t)n, NULL, NVSHMEM_CMP_EQ, (T)n) == (size_t)(n - 1)); \
    nvshmem_barrier_all();                                                                        \
    nvshmem_free(told);                                                                           \
  }
WEFT_SHMEM_WAIT_TYPES(WAITS, , )

/* 1.5 + 1.5 + … and the largest, in half precision: 0x3E00 and 0x3FC0 are 1.5. */
static void halves(void) {
  weft_nvshmem_half *h = nvshmem_calloc(2, sizeof *h), x = {0x3E00};
  weft_nvshmem_bfloat16 *b = nvshmem_calloc(1, sizeof *b), y = {0x3FC0};
  CHECK(nvshmem_half_max_reduce(NVSHMEM_TEAM_WORLD, h, &x, 1) == 0 && h[0].bits == 0x3E00);
  CHECK(nvshmem_bfloat16_min_reduce(NVSHMEM_TEAM_WORLD, b, &y, 1) == 0 && b->bits == 0x3FC0);
  h[0].bits = h[1].bits = 0;
  nvshmem_barrier_all();
  if (me == 0) nvshmemx_half_atomic_add(&h[1], x, n - 1);
  if (me == 0) CHECK(nvshmemx_half_atomic_fetch_add(&h[1], x, n - 1).bits == 0x3E00);
  nvshmem_barrier_all();
  if (me == n - 1) CHECK(h[0].bits == 0 && h[1].bits == 0x4200); /* 3.0, and the half beside it is as it was */
  nvshmem_barrier_all();
  nvshmem_free(b);
  nvshmem_free(h);
}

#define CALL_RMA(T, name, a, b) rma_##name(stream);
#define CALL_REDUCTIONS(T, name, a, b) reductions_##name();
#define CALL_WAITS(T, name, a, b) waits_##name(stream);

int main(void) {
  nvshmem_init();
  me = nvshmem_my_pe();
  n = nvshmem_n_pes();
  next = (me + 1) % n;
  before = (me + n - 1) % n;
  cudaStream_t stream;
  CHECK(weft_nvshmem_stream_create(&stream) == 0);
  WEFT_NVSHMEM_RMA_TYPES(CALL_RMA, , )
  WEFT_SHMEM_LOGIC_TYPES(CALL_REDUCTIONS, , )
  WEFT_SHMEM_AMO_FLOATS(CALL_REDUCTIONS, , )
  WEFT_SHMEM_WAIT_TYPES(CALL_WAITS, , )
  halves();
  CHECK(weft_nvshmem_stream_destroy(stream) == 0);
  nvshmem_finalize();
  return 0;
}
