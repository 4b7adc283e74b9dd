/* NCCL's calls that need no GPU. */
#include <nccl.h>
#include <stdio.h>

int main(void) {
  int version = 0;
  ncclUniqueId id;
  if (ncclGetVersion(&version) != ncclSuccess || ncclGetUniqueId(&id) != ncclSuccess) return 1;
  printf("version %d\n", version);
  return version == NCCL_VERSION_CODE ? 0 : 1;
}
