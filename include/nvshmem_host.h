#ifndef WEFT_NVSHMEM_HOST_H
#define WEFT_NVSHMEM_HOST_H

/* The part of NVSHMEM's header that compilers of the host read: here, all of it. */

#include "nvshmem.h"

#endif
