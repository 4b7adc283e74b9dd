#ifndef WEFT_SHMEM_H
#define WEFT_SHMEM_H

/* OpenSHMEM 1.5 over weft. Build with weft-oshcc or weft-oshcxx, start with weft-oshrun -n N PROGRAM.
   Misuse (a PE out of range, memory that is not symmetric, freeing twice, different sizes, no shmem_init) ends the
   process with one line that names call, PE and address. docs/pgas.md says what weft adds and lacks. */

#include "weft/shmem/types.h"

#include "weft/shmem/atomics.h"
#include "weft/shmem/collectives.h"
#include "weft/shmem/deprecated.h"
#include "weft/shmem/memory.h"
#include "weft/shmem/rma.h"
#include "weft/shmem/sync.h"

/* shmem_put(…) for any type: overloads in C++, _Generic in C11. */
#if defined(__cplusplus)
#include "weft/shmem/generic_cxx.h"
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#include "weft/shmem/generic_c11.h"
#endif

#endif
