/* Every PE puts its number into its neighbour's memory. */
#include <shmem.h>
#include <stdio.h>

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), pes = shmem_n_pes();
  long* got = shmem_malloc(sizeof *got);
  shmem_long_p(got, me, (me + 1) % pes);
  shmem_barrier_all();
  const int right = *got == (me + pes - 1) % pes;
  if (right && me == 0) printf("right on %d PEs\n", pes);
  shmem_finalize();
  return right ? 0 : 1;
}
