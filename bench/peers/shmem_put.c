// A put and a ping-pong of puts with flags between two PEs, by any OpenSHMEM:
//   build/weft-oshcc -O2 bench/peers/shmem_put.c -o put_weft && build/weft-oshrun -n 2 ./put_weft
//   oshcc -O2 bench/peers/shmem_put.c -o put_ompi && oshrun -n 2 ./put_ompi
// Per size: microseconds of a put with its quiet, and of one way of the ping-pong (put, fence, flag); best of 7 runs.
#include <shmem.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { kLargest = 1 << 19, kRuns = 7 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(void) {
  shmem_init();
  const int self = shmem_my_pe();
  char* to = shmem_malloc(kLargest);
  char* from = shmem_malloc(kLargest);
  long* flag = shmem_malloc(sizeof(long));
  memset(from, 1, kLargest);
  *flag = 0;
  shmem_barrier_all();
  long turn = 0;
  for (long size = 8; size <= kLargest; size *= 16) {
    const int puts = size < 65536 ? 20000 : 400, turns = puts / 4;
    double put = 1, way = 1;
    for (int run = 0; run < kRuns; ++run) {
      shmem_barrier_all();
      double start = now();
      for (int i = 0; self == 0 && i < puts; ++i) {
        shmem_putmem(to, from, (size_t)size, 1);
        shmem_quiet();
      }
      double one = (now() - start) / puts;
      if (one < put) put = one;
      shmem_barrier_all();
      start = now();
      for (int i = 0; i < turns; ++i) {
        ++turn;
        if (self == 1) shmem_long_wait_until(flag, SHMEM_CMP_EQ, turn);
        shmem_putmem(to, from, (size_t)size, 1 - self);
        shmem_fence();
        shmem_long_p(flag, turn, 1 - self);
        if (self == 0) shmem_long_wait_until(flag, SHMEM_CMP_EQ, turn);
      }
      one = (now() - start) / turns / 2;
      if (one < way) way = one;
    }
    if (self == 0) printf("%8ld B  put and quiet %8.3f us  one way %8.3f us\n", size, put * 1e6, way * 1e6);
  }
  fflush(stdout);  // Open MPI 4.1.4 of Debian 12 crashes in shmem_finalize
  shmem_finalize();
  return 0;
}
