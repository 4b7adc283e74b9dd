/* Global and static variables are symmetric: put, get, atomics, collectives and pointers reach them. */

#include <string.h>

#include "check.h"

static long zero[3000];           /* .bss, several pages */
static int set[4] = {1, 2, 3, 4}; /* .data */
long everywhere = 5;
static const char* const kText = "unchanged"; /* read-only data is nobody's to share */

int main(void) {
  set[3] = 40; /* before the start: must survive it */
  zero[2999] = 9;
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n, before = (me + n - 1) % n;
  CHECK(set[0] == 1 && set[3] == 40 && zero[2999] == 9 && everywhere == 5 && strcmp(kText, "unchanged") == 0);
  shmem_barrier_all();
  shmem_long_p(&zero[1234], me + 1, next);
  shmem_long_atomic_add(&everywhere, 1, 0);
  shmem_int_put(&set[1], (int[]){me, me}, 2, next);
  shmem_barrier_all();
  CHECK(zero[1234] == before + 1 && zero[1233] == 0 && set[0] == 1 && set[1] == before && set[2] == before);
  CHECK(shmem_long_g(&everywhere, 0) == 5 + n);
  CHECK(shmem_addr_accessible(&everywhere, next) && !shmem_addr_accessible(kText, next));
  static char machine[80];
  const char* const name = getenv("WEFT_NODE");
  if (name != NULL) strncpy(machine, name, sizeof machine - 1);
  shmem_barrier_all();
  char its_machine[80];
  shmem_getmem(its_machine, machine, sizeof machine, next);
  int neighbours = 0;
  for (int pe = 0; pe < n; ++pe) neighbours += shmem_ptr(&set[0], pe) != NULL;
  CHECK(shmem_team_n_pes(SHMEM_TEAM_SHARED) == neighbours && neighbours >= 1);
  if (n > 1) {
    int* there = shmem_ptr(&set[0], next);
    if (!over_tcp() || (name != NULL && strcmp(machine, its_machine) == 0))
      CHECK(there != NULL && there != &set[0] && there[0] == 1);
    else
      CHECK(there == NULL);
  }
  shmem_barrier_all();
  static double in[100], sum[100];
  for (int i = 0; i < 100; ++i) in[i] = me + i;
  CHECK(shmem_double_sum_reduce(SHMEM_TEAM_WORLD, sum, in, 100) == 0);
  for (int i = 0; i < 100; ++i) CHECK(sum[i] == n * i + n * (n - 1) / 2.0);
  shmem_finalize();
  return everywhere >= 5 ? 0 : 1; /* the variables stay where they are */
}
