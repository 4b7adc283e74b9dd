#ifndef WEFT_NVSHMEMX_H
#define WEFT_NVSHMEMX_H

/* NVSHMEM's extensions: nvshmem.h has them all. */

#include "nvshmem.h"

#endif
