#ifndef WEFT_NVSHMEM_TYPES_H
#define WEFT_NVSHMEM_TYPES_H

/* Types and constants of NVSHMEM 3.8, and its lists of element types, which are OpenSHMEM's with half precision and
   without long double. */

#include <limits.h>

#include "weft/shmem/types.h"

#define NVSHMEM_MAJOR_VERSION 1 /* of OpenSHMEM's specification */
#define NVSHMEM_MINOR_VERSION 3
#define NVSHMEM_VENDOR_MAJOR_VERSION 3
#define NVSHMEM_VENDOR_MINOR_VERSION 8
#define NVSHMEM_VENDOR_PATCH_VERSION 0
#define NVSHMEM_VENDOR_VERSION 30800
#define NVSHMEM_VENDOR_STRING "NVSHMEM v3.8.0 (weft)"
#define NVSHMEM_MAX_NAME_LEN 256

/* CUDA's, where its headers were included before; else of the same size. */
typedef struct CUstream_st* cudaStream_t;
#if defined(__CUDA_FP16_H__) || defined(__CUDA_FP16_TYPES_EXIST__)
typedef __half weft_nvshmem_half;
#else
typedef struct {
  uint16_t bits;
} weft_nvshmem_half;
#endif
#if defined(__CUDA_BF16_H__) || defined(__CUDA_BF16_TYPES_EXIST__)
typedef __nv_bfloat16 weft_nvshmem_bfloat16;
#else
typedef struct {
  uint16_t bits;
} weft_nvshmem_bfloat16;
#endif

enum { NVSHMEM_THREAD_SINGLE, NVSHMEM_THREAD_FUNNELED, NVSHMEM_THREAD_SERIALIZED, NVSHMEM_THREAD_MULTIPLE };
enum { NVSHMEM_CMP_EQ, NVSHMEM_CMP_NE, NVSHMEM_CMP_GT, NVSHMEM_CMP_LE, NVSHMEM_CMP_LT, NVSHMEM_CMP_GE };
enum { NVSHMEM_SIGNAL_SET = 9, NVSHMEM_SIGNAL_ADD = 10 };
enum {
  NVSHMEM_STATUS_NOT_INITIALIZED,
  NVSHMEM_STATUS_IS_BOOTSTRAPPED,
  NVSHMEM_STATUS_IS_INITIALIZED,
  NVSHMEM_STATUS_LIMITED_MPG,
  NVSHMEM_STATUS_FULL_MPG
};
enum {
  NVSHMEMX_SUCCESS,
  NVSHMEMX_ERROR_INVALID_VALUE,
  NVSHMEMX_ERROR_OUT_OF_MEMORY,
  NVSHMEMX_ERROR_NOT_SUPPORTED,
  NVSHMEMX_ERROR_SYMMETRY,
  NVSHMEMX_ERROR_GPU_NOT_SELECTED,
  NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED,
  NVSHMEMX_ERROR_INTERNAL
};
enum { NVSHMEM_PE_INVALID = -1 };

/* Teams: handles are numbers. */
typedef int32_t nvshmem_team_t;
typedef nvshmem_team_t nvshmemx_team_t;
enum {
  NVSHMEM_TEAM_INVALID = -1,
  NVSHMEM_TEAM_WORLD = 0,
  NVSHMEM_TEAM_SHARED = 1,          /* PEs whose memory is mapped here */
  NVSHMEMX_TEAM_NODE = 2,           /* PEs of this machine: the same */
  NVSHMEMX_TEAM_SAME_MYPE_NODE = 3, /* PEs with this number on their machine */
  NVSHMEM_TEAMS_MIN = 7
};
typedef uint64_t nvshmemx_team_uniqueid_t;
typedef struct {
  int version;
  int num_contexts;
  nvshmemx_team_uniqueid_t uniqueid;
  char padding[48];
} nvshmem_team_config_v2;
typedef nvshmem_team_config_v2 nvshmem_team_config_t;
#define NVSHMEM_TEAM_CONFIG_INITIALIZER                                           \
  {                                                                               \
    (2 << 16) + (int)sizeof(nvshmem_team_config_t), -1, 0xFFFFFFFFFFFFFFFF, { 0 } \
  }
#define NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS 1
#define NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID 2

/* How a job is joined: the environment says it; what a program passes must agree. */
typedef struct {
  int version;
  char internal[124];
} nvshmemx_uniqueid_v1;
typedef nvshmemx_uniqueid_v1 nvshmemx_uniqueid_t;
typedef struct {
  int version;
  nvshmemx_uniqueid_v1* id;
  int myrank;
  int nranks;
} nvshmemx_uniqueid_args_v1;
typedef nvshmemx_uniqueid_args_v1 nvshmemx_uniqueid_args_t;
typedef struct {
  int version;
  nvshmemx_uniqueid_args_t uid_args;
  int cuda_device_id;
  char content[92];
} nvshmemx_init_args_v2;
typedef nvshmemx_init_args_v2 nvshmemx_init_args_t;
typedef struct {
  int version;
  void* mpi_comm;
  nvshmemx_init_args_t args;
} nvshmemx_init_attr_v2;
typedef nvshmemx_init_attr_v2 nvshmemx_init_attr_t;
#define NVSHMEMX_UNIQUEID_INITIALIZER                   \
  {                                                     \
    (1 << 16) + (int)sizeof(nvshmemx_uniqueid_t), { 0 } \
  }
#define NVSHMEMX_UNIQUEID_ARGS_INITIALIZER \
  { (1 << 16) + (int)sizeof(nvshmemx_uniqueid_args_t), NULL, -1, -1 }
#define NVSHMEMX_INIT_ATTR_INITIALIZER                                                             \
  {                                                                                                \
    (2 << 16) + (int)sizeof(nvshmemx_init_attr_t), NULL, {                                         \
      (2 << 16) + (int)sizeof(nvshmemx_init_args_t), NVSHMEMX_UNIQUEID_ARGS_INITIALIZER, -1, { 0 } \
    }                                                                                              \
  }
enum {
  NVSHMEMX_INIT_THREAD_PES = 1,
  NVSHMEMX_INIT_WITH_MPI_COMM = 1 << 1,
  NVSHMEMX_INIT_WITH_SHMEM = 1 << 2,
  NVSHMEMX_INIT_WITH_UNIQUEID = 1 << 3
};

#define WEFT_NVSHMEM_HALVES(X, a, b) X(weft_nvshmem_half, half, a, b) X(weft_nvshmem_bfloat16, bfloat16, a, b)
#define WEFT_NVSHMEM_RMA_TYPES(X, a, b) \
  WEFT_SHMEM_NARROW(X, a, b)            \
  WEFT_SHMEM_SMALL_FIXED(X, a, b)       \
  WEFT_SHMEM_FIXED(X, a, b) WEFT_SHMEM_SIZES(X, a, b) WEFT_NVSHMEM_HALVES(X, a, b)
#define WEFT_NVSHMEM_REDUCE_TYPES(X, a, b) \
  WEFT_SHMEM_LOGIC_TYPES(X, a, b)          \
  X(char, char, a, b)                      \
  X(signed char, schar, a, b)              \
  X(short, short, a, b)                    \
  X(int, int, a, b)                        \
  X(long, long, a, b)                      \
  X(long long, longlong, a, b) X(float, float, a, b) X(double, double, a, b) WEFT_NVSHMEM_HALVES(X, a, b)

/* A function of the host, and the one that does the same in the order of a stream. */
#define WEFT_NVSHMEM_LIST(...) __VA_ARGS__
#define WEFT_NVSHMEM_FUNCTION(result, name, parameters) \
  result nvshmem_##name(WEFT_NVSHMEM_LIST parameters);  \
  result nvshmemx_##name##_on_stream(WEFT_NVSHMEM_LIST parameters, cudaStream_t stream);

#endif
