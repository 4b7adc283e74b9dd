#ifndef WEFT_NVSHMEM_MEMORY_H
#define WEFT_NVSHMEM_MEMORY_H

/* Start, symmetric memory, and teams. */

#include "weft/nvshmem/types.h"

WEFT_SHMEM_BEGIN

void nvshmem_init(void);
int nvshmem_init_thread(int requested, int* provided);
void nvshmem_query_thread(int* provided);
void nvshmem_finalize(void);
void nvshmem_global_exit(int status);
int nvshmem_my_pe(void);
int nvshmem_n_pes(void);
void nvshmem_info_get_version(int* major, int* minor);
void nvshmem_info_get_name(char* name);
void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch);

/* Collective: all PEs pass the same size, else the job ends with a line that names the sizes. Null: no room. */
void* nvshmem_malloc(size_t size);
void* nvshmem_calloc(size_t count, size_t size);
void* nvshmem_align(size_t alignment, size_t size);
void nvshmem_free(void* ptr);
/* Where this PE loads and stores `dest` of `pe`; null: another machine's, or not symmetric. */
void* nvshmem_ptr(const void* dest, int pe);
/* Null: memory of CPUs has no multicast address. */
void* nvshmemx_mc_ptr(nvshmem_team_t team, const void* dest);

int nvshmem_team_my_pe(nvshmem_team_t team);
int nvshmem_team_n_pes(nvshmem_team_t team);
void nvshmem_team_get_config(nvshmem_team_t team, nvshmem_team_config_t* config);
int nvshmem_team_translate_pe(nvshmem_team_t source, int pe, nvshmem_team_t destination);
int nvshmem_team_split_strided(nvshmem_team_t parent, int start, int stride, int size,
                               const nvshmem_team_config_t* config, long config_mask, nvshmem_team_t* made);
int nvshmem_team_split_2d(nvshmem_team_t parent, int xrange, const nvshmem_team_config_t* xconfig, long xmask,
                          nvshmem_team_t* xteam, const nvshmem_team_config_t* yconfig, long ymask,
                          nvshmem_team_t* yteam);
void nvshmem_team_destroy(nvshmem_team_t team);
WEFT_SHMEM_END

#endif
