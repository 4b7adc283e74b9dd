/* Does one thing wrong, named by the argument; the test expects the message. */

#include "check.h"

static int unique_id(int rank, int ranks) {
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  nvshmemx_get_uniqueid(&id);
  nvshmemx_set_attr_uniqueid_args(rank, ranks, &id, &attributes);
  return nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "before-init") == 0) return nvshmem_my_pe();
  if (strcmp(what, "other-rank") == 0) return unique_id(0, 7);
  if (strcmp(what, "flags") == 0) return nvshmemx_init_attr(1u << 20, NULL);
  if (strcmp(what, "threads") == 0) return nvshmemx_init_attr(NVSHMEMX_INIT_THREAD_PES, NULL);
  nvshmem_init();
  long local = 0;
  const int me = nvshmem_my_pe();
  long* symmetric = nvshmem_malloc(4 * sizeof(long));
  if (strcmp(what, "not-symmetric") == 0) nvshmem_long_put(&local, symmetric, 1, 1);
  if (strcmp(what, "beyond-the-heap") == 0) nvshmem_putmem(symmetric, &local, (size_t)1 << 50, 0);
  if (strcmp(what, "no-such-pe") == 0) nvshmem_long_p(symmetric, 1, 17);
  if (strcmp(what, "unaligned") == 0) nvshmem_long_atomic_inc((long*)((char*)symmetric + 1), 0);
  if (strcmp(what, "sizes-differ") == 0) nvshmem_malloc(me == 0 ? 100 : 200);
  if (strcmp(what, "freed-twice") == 0) nvshmem_free(symmetric), nvshmem_free(symmetric);
  if (strcmp(what, "signal-op") == 0) nvshmemx_signal_op((uint64_t*)symmetric, 1, 1, 0);
  if (strcmp(what, "comparison") == 0) nvshmem_long_wait_until(symmetric, 6, 0);
  if (strcmp(what, "in-a-stream") == 0) {
    nvshmemx_long_put_on_stream(&local, symmetric, 1, 1, NULL);
    weft_nvshmem_stream_synchronize(NULL);
  }
  if (strcmp(what, "put-on-no-stream") == 0)
    nvshmemx_long_put_on_stream(symmetric, symmetric, 1, 1, (cudaStream_t)symmetric);
  if (strcmp(what, "malloc-against-free") == 0) {
    if (me == 0)
      nvshmem_free(symmetric);
    else
      nvshmem_malloc(64);
  }
  if (strcmp(what, "nothing-to-no-pe") == 0) nvshmem_putmem(symmetric, &local, 0, 17);
  if (strcmp(what, "no-such-stream") == 0) return weft_nvshmem_stream_synchronize((cudaStream_t)symmetric);
  if (strcmp(what, "not-registered") == 0) return nvshmemx_buffer_unregister(&local);
  if (strcmp(what, "peer-died") == 0) {
    if (me == 1) abort();
    nvshmem_long_wait_until(symmetric, NVSHMEM_CMP_EQ, 12345);
  }
  nvshmem_finalize();
  if (strcmp(what, "after-finalize") == 0) nvshmem_barrier_all();
  return 0;
}
