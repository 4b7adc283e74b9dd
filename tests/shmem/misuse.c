/* Does one thing wrong, named by the argument; the test expects the message. */

#include <stdlib.h>
#include <string.h>

#include "check.h"

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "before-init") == 0) return shmem_my_pe();
  shmem_init();
  long local = 0;
  const int me = shmem_my_pe();
  long* symmetric = shmem_malloc(4 * sizeof(long));
  if (strcmp(what, "not-symmetric") == 0) shmem_long_put(&local, symmetric, 1, 1);
  if (strcmp(what, "null") == 0) shmem_long_put(NULL, NULL, 1, 1);
  if (strcmp(what, "null-local") == 0) shmem_long_get(NULL, symmetric, 1, 0);
  if (strcmp(what, "destroyed-team") == 0) {
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &team);
    shmem_team_destroy(team);
    shmem_team_sync(team);
  }
  if (strcmp(what, "beyond-the-heap") == 0) shmem_putmem(symmetric, &local, (size_t)1 << 50, 0);
  if (strcmp(what, "count-overflows") == 0) shmem_long_put(symmetric, &local, ((size_t)1 << 61) + 1, 0);
  if (strcmp(what, "stride-overflows") == 0) shmem_long_iput(symmetric, symmetric, (ptrdiff_t)1 << 61, 1, 2, 0);
  if (strcmp(what, "local-stride-overflows") == 0) shmem_long_iput(symmetric, symmetric, 1, (ptrdiff_t)1 << 61, 2, 0);
  if (strcmp(what, "no-such-pe") == 0) shmem_long_p(symmetric, 1, 17);
  if (strcmp(what, "unaligned") == 0) shmem_long_atomic_inc((long*)((char*)symmetric + 1), 0);
  if (strcmp(what, "sizes-differ") == 0) shmem_malloc(me == 0 ? 100 : 200);
  if (strcmp(what, "freed-twice") == 0) shmem_free(symmetric), shmem_free(symmetric);
  if (strcmp(what, "lock-not-held") == 0) shmem_clear_lock(symmetric + 1);
  if (strcmp(what, "peer-died") == 0) {
    if (me == 1) abort();
    shmem_long_wait_until(symmetric, SHMEM_CMP_EQ, 12345);
  }
  if (strcmp(what, "exit-status") == 0) {
    if (me == 1) shmem_global_exit(7);
    for (;;) {
    }
  }
  shmem_finalize();
  if (strcmp(what, "after-finalize") == 0) shmem_barrier_all();
  return 0;
}
