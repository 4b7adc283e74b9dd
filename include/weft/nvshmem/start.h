#ifndef WEFT_NVSHMEM_START_H
#define WEFT_NVSHMEM_START_H

/* NVSHMEM's extensions for the start and for memory, and weft's for streams where there is no CUDA. */

#include "weft/nvshmem/types.h"

WEFT_SHMEM_BEGIN

/* The job is the one that the environment describes (weft run, mpirun, srun); rank and size that
   NVSHMEMX_INIT_WITH_UNIQUEID passes must be its, else the result is NVSHMEMX_ERROR_INVALID_VALUE and a line says which
   differs. */
int nvshmemx_init_attr(unsigned int flags, nvshmemx_init_attr_t* attributes);
int nvshmemx_hostlib_init_attr(unsigned int flags, nvshmemx_init_attr_t* attributes);
void nvshmemx_hostlib_finalize(void);
int nvshmemx_init_status(void);
int nvshmemx_get_uniqueid(nvshmemx_uniqueid_t* id);
int nvshmemx_set_attr_uniqueid_args(const int rank, const int ranks, const nvshmemx_uniqueid_t* id,
                                    nvshmemx_init_attr_t* attributes);
int nvshmemx_set_attr_mpi_comm_args(void* mpi_comm, nvshmemx_init_attr_t* attributes);

/* Sources and local destinations need no registration on CPUs: ranges are remembered, so that what was not registered
   is not unregistered. */
int nvshmemx_buffer_register(void* address, size_t length);
int nvshmemx_buffer_unregister(void* address);
void nvshmemx_buffer_unregister_all(void);

/* A program without CUDA has its streams from weft: queues, each with a thread. Any other value names a stream, too,
   which begins with its first use; null is the default one. Nonzero: there is no such stream. */
int weft_nvshmem_stream_create(cudaStream_t* stream);
int weft_nvshmem_stream_synchronize(cudaStream_t stream);
int weft_nvshmem_stream_destroy(cudaStream_t stream);
WEFT_SHMEM_END

#endif
