// A program as it is written for NVSHMEM's host interface. It compiles with NVIDIA's headers (make nvshmem-header) and
// with weft's, and finds the same.

#include "check.h"

static int me, n, after, before;

static void moves() {
  auto* there = static_cast<int*>(nvshmem_calloc(64, sizeof(int)));
  int here[64], back[64] = {};
  for (int i = 0; i < 64; ++i) here[i] = 1000 * me + i;
  nvshmem_int_put(there, here, 16, after);
  nvshmem_int_put_nbi(there + 16, here + 16, 16, after);
  nvshmem_putmem(there + 32, here + 32, 16 * sizeof(int), after);
  nvshmem_put64(there + 48, here + 48, 4, after);
  nvshmem_int_iput(there + 56, here + 56, 2, 1, 4, after);
  nvshmem_quiet();
  nvshmem_barrier_all();
  for (int i = 0; i < 56; ++i) CHECK(there[i] == 1000 * before + i);
  for (int i = 0; i < 4; ++i) CHECK(there[56 + 2 * i] == 1000 * before + 56 + i);
  nvshmem_int_get(back, there, 56, after);
  CHECK(memcmp(back, here, 56 * sizeof(int)) == 0);
  nvshmem_int_p(there + 63, 77 + me, after);
  nvshmem_barrier_all();
  CHECK(there[63] == 77 + before && nvshmem_int_g(there + 63, after) == 77 + me);
  nvshmem_barrier_all();
  nvshmem_free(there);
}

static void atomics() {
  auto* at = static_cast<long long*>(nvshmem_calloc(2, sizeof(long long)));
  auto* sum = static_cast<double*>(nvshmem_calloc(1, sizeof(double)));
  for (int i = 0; i < 100; ++i) {
    nvshmem_longlong_atomic_inc(at, 0);
    nvshmemx_double_atomic_add(sum, 0.5, 0);
  }
  nvshmem_barrier_all();
  CHECK(nvshmem_longlong_atomic_fetch(at, 0) == 100 * n);
  CHECK(nvshmem_double_atomic_fetch(sum, 0) == 50.0 * n);
  if (me == n - 1) CHECK(nvshmem_longlong_atomic_compare_swap(at + 1, 0, 5, 0) == 0);
  nvshmem_barrier_all();
  CHECK(nvshmem_longlong_g(at + 1, 0) == 5);
  nvshmem_barrier_all();
  nvshmem_free(sum);
  nvshmem_free(at);
}

// What a stream is asked to do happens in order: the signal comes after its data, the sum after the wait.
static void in_the_order_of_a_stream() {
  enum { kCount = 1000 };
  auto* data = static_cast<long*>(nvshmem_calloc(kCount, sizeof(long)));
  auto* sum = static_cast<long*>(nvshmem_calloc(kCount, sizeof(long)));
  auto* signal = static_cast<uint64_t*>(nvshmem_calloc(1, sizeof(uint64_t)));
  long here[kCount];
  for (int i = 0; i < kCount; ++i) here[i] = me + i;
  cudaStream_t stream = nullptr;
  for (uint64_t round = 1; round <= 10; ++round) {
    nvshmemx_long_put_signal_on_stream(data, here, kCount, signal, 1, NVSHMEM_SIGNAL_ADD, after, stream);
    nvshmemx_signal_wait_until_on_stream(signal, NVSHMEM_CMP_GE, round, stream);
    nvshmemx_long_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, sum, data, kCount, stream);
    nvshmemx_barrier_all_on_stream(stream);
  }
  CHECK(nvshmemx_long_g_on_stream(sum, me, stream) == n * (n - 1) / 2);  // waits for the stream
  for (int i = 0; i < kCount; ++i) CHECK(data[i] == before + i && sum[i] == n * (n - 1) / 2 + static_cast<long>(n) * i);
  CHECK(nvshmem_signal_fetch(signal) == 10);
  nvshmem_barrier_all();
  nvshmem_free(signal);
  nvshmem_free(sum);
  nvshmem_free(data);
}

static void teams() {
  nvshmem_team_t even = NVSHMEM_TEAM_WORLD;
  const int evens = (n + 1) / 2;
  CHECK(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 2, evens, nullptr, 0, &even) == 0);
  CHECK((even == NVSHMEM_TEAM_INVALID) == (me % 2 == 1));
  auto* all = static_cast<int*>(nvshmem_calloc(static_cast<size_t>(n), sizeof(int)));
  auto* own = static_cast<int*>(nvshmem_calloc(static_cast<size_t>(n), sizeof(int)));
  for (int i = 0; i < n; ++i) own[i] = me * 10 + i;
  if (even != NVSHMEM_TEAM_INVALID) {
    CHECK(nvshmem_team_n_pes(even) == evens && 2 * nvshmem_team_my_pe(even) == me);
    CHECK(nvshmem_team_translate_pe(even, evens - 1, NVSHMEM_TEAM_WORLD) == 2 * (evens - 1));
    CHECK(nvshmem_int_fcollect(even, all, own, 1) == 0);
    for (int i = 0; i < evens; ++i) CHECK(all[i] == 20 * i);
    CHECK(nvshmem_int_max_reduce(even, all, own, 1) == 0 && all[0] == 20 * (evens - 1));
    CHECK(nvshmem_int_sum_reducescatter(even, all, own, 1) == 0);
    CHECK(all[0] == 10 * evens * (evens - 1) + evens * nvshmem_team_my_pe(even));
    nvshmem_team_destroy(even);
  }
  CHECK(nvshmem_int_broadcast(NVSHMEM_TEAM_WORLD, all, own, 1, n - 1) == 0 && all[0] == 10 * (n - 1));
  CHECK(nvshmem_int_alltoall(NVSHMEM_TEAM_WORLD, all, own, 1) == 0);
  for (int i = 0; i < n; ++i) CHECK(all[i] == 10 * i + me);
  CHECK(nvshmem_team_my_pe(NVSHMEM_TEAM_INVALID) == -1 && nvshmem_barrier(NVSHMEM_TEAM_INVALID) != 0);
  CHECK(nvshmem_team_n_pes(NVSHMEMX_TEAM_NODE) * nvshmem_team_n_pes(NVSHMEMX_TEAM_SAME_MYPE_NODE) == n);
  nvshmem_barrier_all();
  nvshmem_free(own);
  nvshmem_free(all);
}

int main() {
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  CHECK(nvshmemx_init_attr(0, &attributes) == 0);
  CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_IS_INITIALIZED);
  me = nvshmem_my_pe();
  n = nvshmem_n_pes();
  after = (me + 1) % n;
  before = (me + n - 1) % n;
  moves();
  atomics();
  in_the_order_of_a_stream();
  teams();
  nvshmem_finalize();
  return 0;
}
