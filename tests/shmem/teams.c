/* Teams, their numbering, their collectives, and active sets; whoever is not in a team goes on. */

#include "check.h"

static int me, n;
static long source[8], dest[8 * 64], sync_array[SHMEM_REDUCE_SYNC_SIZE], work[8];

/* Sum and order over a team's members, whose PEs are start, start + stride, … */
static void collectives_on(shmem_team_t team, int start, int stride, int size) {
  CHECK(shmem_team_n_pes(team) == size);
  CHECK(start + stride * shmem_team_my_pe(team) == me);
  CHECK(shmem_team_translate_pe(team, shmem_team_my_pe(team), SHMEM_TEAM_WORLD) == me);
  CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, me, team) == shmem_team_my_pe(team));
  for (int i = 0; i < 8; ++i) source[i] = me * 100 + i;
  CHECK(shmem_team_sync(team) == 0);
  CHECK(shmem_long_fcollect(team, dest, source, 8) == 0);
  for (int i = 0; i < 8 * size; ++i) CHECK(dest[i] == (start + stride * (i / 8)) * 100 + i % 8);
  CHECK(shmem_team_sync(team) == 0);
  CHECK(shmem_long_sum_reduce(team, dest, source, 8) == 0);
  const int pes = size * start + stride * size * (size - 1) / 2;
  for (int i = 0; i < 8; ++i) CHECK(dest[i] == pes * 100 + i * size);
  CHECK(shmem_team_sync(team) == 0);
  CHECK(shmem_long_broadcast(team, dest, source, 8, size - 1) == 0);
  for (int i = 0; i < 8; ++i) CHECK(dest[i] == (start + stride * (size - 1)) * 100 + i);
  CHECK(shmem_team_sync(team) == 0);
}

static void strided(void) {
  const int evens = (n + 1) / 2;
  shmem_team_t even = SHMEM_TEAM_WORLD, reversed;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, evens, NULL, 0, &even) == 0);
  CHECK((even == SHMEM_TEAM_INVALID) == (me % 2 == 1));
  if (even != SHMEM_TEAM_INVALID) {
    collectives_on(even, 0, 2, evens);
    CHECK(shmem_team_split_strided(even, evens - 1, -1, evens, NULL, 0, &reversed) == 0);
    collectives_on(reversed, 2 * (evens - 1), -2, evens);
    shmem_ctx_t context;
    CHECK(shmem_team_create_ctx(reversed, 0, &context) == 0);
    shmem_ctx_long_p(context, &dest[0], me, shmem_team_n_pes(reversed) - 1); /* the last of them is PE 0 */
    shmem_ctx_destroy(context);
    shmem_team_destroy(reversed);
    shmem_team_destroy(even);
  }
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n + 1, NULL, 0, &even) != 0 && even == SHMEM_TEAM_INVALID);
  CHECK(shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1 && shmem_team_sync(SHMEM_TEAM_INVALID) != 0);
}

static void grid(void) {
  shmem_team_t row, column;
  CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &row, NULL, 0, &column) == 0);
  const int first = me / 2 * 2;
  collectives_on(row, first, 1, first + 1 < n ? 2 : 1);
  collectives_on(column, me % 2, 2, (n - me % 2 + 1) / 2);
  shmem_team_destroy(column);
  shmem_team_destroy(row);
}

/* Made and destroyed more often than there is room for at once. */
static void again_and_again(void) {
  for (int i = 0; i < (over_tcp() ? 10 : 50); ++i) {
    shmem_team_t all;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &all) == 0);
    collectives_on(all, 0, 1, n);
    shmem_team_destroy(all);
  }
}

/* Until there is no memory for one more: then all PEs are told so, members or not, and nobody waits for ever. */
static void as_many_as_there_is_room_for(void) {
  if (over_tcp()) return; /* such teams need no shared memory */
  enum { kMost = 3000 };
  static shmem_team_t made[kMost];
  int count = 0;
  while (count < kMost && shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 1 + count % n, NULL, 0, &made[count]) == 0)
    ++count;
  CHECK(count > 10 && count < kMost && made[count] == SHMEM_TEAM_INVALID);
  while (count > 0) shmem_team_destroy(made[--count]);
}

static void active_sets(void) {
  const int odds = n / 2;
  if (me % 2 == 1) {
    for (int i = 0; i < 8; ++i) source[i] = me + i;
    shmem_barrier(1, 1, odds, sync_array);
    shmem_long_max_to_all(dest, source, 8, 1, 1, odds, work, sync_array);
    for (int i = 0; i < 8; ++i) CHECK(dest[i] == 2 * odds - 1 + i);
    dest[0] = -1;
    shmem_barrier(1, 1, odds, sync_array);
    shmem_broadcast64(dest, source, 8, 0, 1, 1, odds, sync_array);
    CHECK(dest[0] == (me == 1 ? -1 : 1)); /* the root's own dest stays as it is */
    shmem_barrier(1, 1, odds, sync_array);
  }
  shmem_barrier_all();
}

int main(void) {
  shmem_init();
  me = shmem_my_pe();
  n = shmem_n_pes();
  collectives_on(SHMEM_TEAM_WORLD, 0, 1, n);
  strided();
  grid();
  again_and_again();
  as_many_as_there_is_room_for();
  active_sets();
  shmem_finalize();
  return 0;
}
