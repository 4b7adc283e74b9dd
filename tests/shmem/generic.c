/* The type-generic names, in C11 by _Generic and in C++ by overloading (generic.cc includes this file). */

#include "check.h"

static int cell, many[4];
static uint64_t signal_word;
static double real_cell;

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n, before = (me + n - 1) % n;
  shmem_ctx_t context;
  CHECK(shmem_ctx_create(SHMEM_CTX_PRIVATE, &context) == 0);
  const int value = me + 1;
  const int* const constant = &cell;
  shmem_put(&cell, &value, 1, next);
  shmem_p(context, &real_cell, me + 0.5, next);
  shmem_ctx_quiet(context);
  shmem_barrier_all();
  CHECK(cell == before + 1 && real_cell == before + 0.5);
  CHECK(shmem_g(constant, next) == me + 1 && shmem_g(context, &real_cell, next) == me + 0.5);
  shmem_barrier_all();
  if (me == 0) cell = 0;
  shmem_barrier_all();
  shmem_atomic_add(&cell, 2, 0);
  shmem_atomic_fetch_add(context, &cell, 1, 0);
  shmem_barrier_all();
  CHECK(shmem_atomic_fetch(&cell, 0) == 3 * n);
  shmem_put_signal(many, &value, 1, &signal_word, 1, SHMEM_SIGNAL_SET, next);
  shmem_wait_until(&signal_word, SHMEM_CMP_EQ, (uint64_t)1);
  CHECK(many[0] == before + 1 && shmem_test(&signal_word, SHMEM_CMP_NE, (uint64_t)0));
  shmem_barrier_all();
  many[1] = 1;
  CHECK(shmem_sum_reduce(SHMEM_TEAM_WORLD, &many[2], &many[1], 1) == 0 && many[2] == n);
  CHECK(shmem_broadcast(SHMEM_TEAM_WORLD, &many[3], &many[0], 1, 0) == 0 && many[3] == n);
  shmem_sync(SHMEM_TEAM_WORLD);
  shmem_ctx_destroy(context);
  shmem_finalize();
  return 0;
}
