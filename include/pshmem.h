/* OpenSHMEM's profiling interface: every function also under its pshmem_ name. */
#ifndef WEFT_PSHMEM_H
#define WEFT_PSHMEM_H

#include <shmem.h>

#endif
