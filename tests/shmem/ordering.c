/* What the standard promises about order. Linked with weak.c the same program must fail. */

#include <stdlib.h>

#include "check.h"

enum { kWords = 64, kRounds = 2000 };

static long data[kWords];
static long flag, taken;
static uint64_t signals;

/* Round after round, everybody writes to the next PE; a round's data may be overwritten when the reader says so. */
static void flag_after_fence(int me, int n) {
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  long out[kWords];
  for (long round = 1; round <= kRounds; ++round) {
    for (int i = 0; i < kWords; ++i) out[i] = round * 1000 + i;
    shmem_long_put(data, out, kWords, next);
    shmem_fence();
    shmem_long_p(&flag, round, next);
    shmem_long_wait_until(&flag, SHMEM_CMP_GE, round);
    for (int i = 0; i < kWords; ++i) CHECK(data[i] == round * 1000 + i);
    shmem_long_atomic_set(&taken, round, before);
    shmem_long_wait_until(&taken, SHMEM_CMP_GE, round);
  }
}

static void signal_after_data(int me, int n) {
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  long out[kWords];
  shmem_long_p(&taken, 0, me);
  shmem_barrier_all();
  for (long round = 1; round <= kRounds; ++round) {
    for (int i = 0; i < kWords; ++i) out[i] = round * 7 - i;
    shmem_long_put_signal(data, out, kWords, &signals, 1, SHMEM_SIGNAL_ADD, next);
    CHECK(shmem_signal_wait_until(&signals, SHMEM_CMP_GE, (uint64_t)round) == (uint64_t)round);
    for (int i = 0; i < kWords; ++i) CHECK(data[i] == round * 7 - i);
    shmem_long_atomic_set(&taken, round, before);
    shmem_long_wait_until(&taken, SHMEM_CMP_GE, round);
  }
}

/* After quiet a put is there, so that a get by anybody who was told so finds it. */
static void complete_after_quiet(int me, int n) {
  long* cell = shmem_calloc((size_t)n, sizeof(long));
  for (long round = 1; round <= kRounds / 10; ++round) {
    for (int pe = 0; pe < n; ++pe) shmem_long_put_nbi(&cell[me], &round, 1, pe);
    shmem_quiet();
    shmem_sync_all(); /* unlike barrier_all it completes nothing itself */
    for (int pe = 0; pe < n; ++pe) CHECK(shmem_long_g(&cell[pe], (me + 1) % n) == round);
    shmem_sync_all();
  }
  shmem_free(cell);
}

/* Everybody's signals of SHMEM_SIGNAL_ADD on one word: none is lost, and each one's data is there when it counts. */
static void many_signals(int me, int n) {
  enum { kEach = 500 };
  uint64_t* count = shmem_calloc(1, sizeof(uint64_t));
  long* box = shmem_calloc((size_t)n * kEach, sizeof(long));
  for (int i = 0; i < kEach; ++i) {
    const long value = me * kEach + i + 1;
    shmem_long_put_signal(&box[me * kEach + i], &value, 1, count, 1, SHMEM_SIGNAL_ADD, 0);
  }
  if (me == 0) {
    shmem_signal_wait_until(count, SHMEM_CMP_EQ, (uint64_t)n * kEach);
    for (int i = 0; i < n * kEach; ++i) CHECK(box[i] == i + 1);
  }
  shmem_barrier_all();
  shmem_free(box);
  shmem_free(count);
}

/* Slots drawn from a counter are drawn once. */
static void hammering(int me, int n) {
  enum { kEach = 5000 };
  long* counter = shmem_calloc(1, sizeof(long));
  int* drawn = shmem_calloc((size_t)n * kEach, sizeof(int));
  unsigned* bits = shmem_calloc(1, sizeof(unsigned));
  for (int i = 0; i < kEach; ++i) {
    const long slot = shmem_long_atomic_fetch_inc(counter, 0);
    CHECK(slot >= 0 && slot < (long)n * kEach);
    shmem_int_atomic_inc(&drawn[slot], 0);
    shmem_uint_atomic_xor(bits, 1u << me, 0);
  }
  shmem_barrier_all();
  if (me == 0) {
    CHECK(*counter == (long)n * kEach);
    for (int i = 0; i < n * kEach; ++i) CHECK(drawn[i] == 1);
    CHECK(*bits == 0);
  }
  shmem_barrier_all();
  shmem_free(bits);
  shmem_free(drawn);
  shmem_free(counter);
}

static long lock, guarded;

static void one_at_a_time(int me, int n) {
  enum { kEach = 300 };
  for (int i = 0; i < kEach; ++i) {
    if (i % 2 == 0)
      shmem_set_lock(&lock);
    else
      while (shmem_test_lock(&lock) != 0) {
      }
    const long before = shmem_long_g(&guarded, n - 1); /* not atomic: the lock makes it so */
    shmem_long_p(&guarded, before + 1, n - 1);
    shmem_clear_lock(&lock);
  }
  shmem_barrier_all();
  CHECK(shmem_long_g(&guarded, n - 1) == (long)n * kEach);
  CHECK(shmem_long_g(&lock, 0) == 0);
  (void)me;
}

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes();
  flag_after_fence(me, n);
  shmem_barrier_all();
  signal_after_data(me, n);
  complete_after_quiet(me, n);
  many_signals(me, n);
  hammering(me, n);
  one_at_a_time(me, n);
  shmem_finalize();
  return 0;
}
