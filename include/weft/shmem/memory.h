#ifndef WEFT_SHMEM_MEMORY_H
#define WEFT_SHMEM_MEMORY_H

/* Start and end, who is there, symmetric memory, contexts and teams. */

#include "weft/shmem/types.h"

WEFT_SHMEM_BEGIN
WEFT_SHMEM_FUNCTION(void, init, (void))
WEFT_SHMEM_FUNCTION(int, init_thread, (int requested, int* provided))
WEFT_SHMEM_FUNCTION(void, query_thread, (int* provided))
WEFT_SHMEM_FUNCTION(void, finalize, (void))
WEFT_SHMEM_FUNCTION(void, global_exit, (int status))
WEFT_SHMEM_FUNCTION(int, my_pe, (void))
WEFT_SHMEM_FUNCTION(int, n_pes, (void))
WEFT_SHMEM_FUNCTION(int, pe_accessible, (int pe))
WEFT_SHMEM_FUNCTION(int, addr_accessible, (const void* addr, int pe))
WEFT_SHMEM_FUNCTION(void*, ptr, (const void* dest, int pe))
WEFT_SHMEM_FUNCTION(void, info_get_version, (int* major, int* minor))
WEFT_SHMEM_FUNCTION(void, info_get_name, (char* name))
WEFT_SHMEM_FUNCTION(int, pcontrol, (int level, ...))

WEFT_SHMEM_FUNCTION(void*, malloc, (size_t size))
WEFT_SHMEM_FUNCTION(void*, calloc, (size_t count, size_t size))
WEFT_SHMEM_FUNCTION(void*, realloc, (void* ptr, size_t size))
WEFT_SHMEM_FUNCTION(void*, align, (size_t alignment, size_t size))
WEFT_SHMEM_FUNCTION(void*, malloc_with_hints, (size_t size, long hints))
WEFT_SHMEM_FUNCTION(void, free, (void* ptr))

WEFT_SHMEM_FUNCTION(int, ctx_create, (long options, shmem_ctx_t* ctx))
WEFT_SHMEM_FUNCTION(int, team_create_ctx, (shmem_team_t team, long options, shmem_ctx_t* ctx))
WEFT_SHMEM_FUNCTION(void, ctx_destroy, (shmem_ctx_t ctx))
WEFT_SHMEM_FUNCTION(int, ctx_get_team, (shmem_ctx_t ctx, shmem_team_t* team))

/* Of OpenSHMEM 1.6. */
WEFT_SHMEM_FUNCTION(void*, team_ptr, (shmem_team_t team, const void* dest, int pe))
WEFT_SHMEM_FUNCTION(int, team_my_pe, (shmem_team_t team))
WEFT_SHMEM_FUNCTION(int, team_n_pes, (shmem_team_t team))
WEFT_SHMEM_FUNCTION(int, team_get_config, (shmem_team_t team, long config_mask, shmem_team_config_t* config))
WEFT_SHMEM_FUNCTION(int, team_translate_pe, (shmem_team_t src_team, int src_pe, shmem_team_t dest_team))
WEFT_SHMEM_FUNCTION(int, team_split_strided,
                    (shmem_team_t parent, int start, int stride, int size, const shmem_team_config_t* config,
                     long config_mask, shmem_team_t* new_team))
WEFT_SHMEM_FUNCTION(int, team_split_2d,
                    (shmem_team_t parent, int xrange, const shmem_team_config_t* xaxis_config, long xaxis_mask,
                     shmem_team_t* xaxis_team, const shmem_team_config_t* yaxis_config, long yaxis_mask,
                     shmem_team_t* yaxis_team))
WEFT_SHMEM_FUNCTION(void, team_destroy, (shmem_team_t team))

WEFT_SHMEM_FUNCTION(void, set_lock, (long* lock))
WEFT_SHMEM_FUNCTION(void, clear_lock, (long* lock))
WEFT_SHMEM_FUNCTION(int, test_lock, (long* lock))
WEFT_SHMEM_END

#endif
