#ifndef WEFT_NVSHMEMX_H
#define WEFT_NVSHMEMX_H

/* NVSHMEM's extensions, among them the functions that work in the order of a stream. */

#include "nvshmem.h"
#include "weft/nvshmem/start.h"

#endif
