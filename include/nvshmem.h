#ifndef WEFT_NVSHMEM_H
#define WEFT_NVSHMEM_H

/* NVSHMEM's host interface over weft's one-sided operations on memory of CPUs. Types, constants and functions have the
   names, values and layouts of NVSHMEM 3.8; a program may be compiled with NVIDIA's own headers instead.
   docs/pgas.md says what differs. */

#include "weft/nvshmem/collectives.h"
#include "weft/nvshmem/memory.h"
#include "weft/nvshmem/rma.h"
#include "weft/nvshmem/start.h"
#include "weft/nvshmem/sync.h"

#endif
