// One process_vm_readv of another process's plain memory: the bound of weft bench transfer --unregistered.
//   cc -O2 -o kernel_copy bench/transfers/kernel_copy.c && ./kernel_copy
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int by_size(const void* a, const void* b) { return *(const double*)a < *(const double*)b ? -1 : 1; }

int main(void) {
  enum { kRounds = 15 };
  const long sizes[] = {4096, 512L << 10, 64L << 20}, most = 64L << 20;
  char* const theirs = aligned_alloc(4096, most);
  char* const mine = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int ready[2];
  if (theirs == NULL || mine == MAP_FAILED || pipe(ready) != 0) return 1;
  memset(mine, 1, most);
  const pid_t child = fork();
  if (child == 0) {
    memset(theirs, 2, most);
    if (write(ready[1], "", 1) != 1) return 1;
    pause();
  }
  char byte;
  if (read(ready[0], &byte, 1) != 1) return 1;
  for (int s = 0; s < 3; ++s) {
    const int repetitions = sizes[s] < (1 << 20) ? 200 : 1;
    double times[kRounds];
    for (int round = 0; round < kRounds; ++round) {
      const double begin = now_us();
      for (int i = 0; i < repetitions; ++i) {
        const struct iovec here = {mine, sizes[s]}, there = {theirs, sizes[s]};
        if (process_vm_readv(child, &here, 1, &there, 1, 0) != sizes[s]) return perror("process_vm_readv"), 1;
      }
      times[round] = (now_us() - begin) / repetitions;
    }
    qsort(times, kRounds, sizeof *times, by_size);
    printf("%10ld B %12.2f us\n", sizes[s], times[kRounds / 2]);
  }
  kill(child, SIGKILL);
  return 0;
}
