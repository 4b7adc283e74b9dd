/* NCCL's C interface as weft's libnccl.so.2 has it: names, numbers and layouts of version 2.28.9.
 * Source: NCCL 2.28 API documentation, docs.nvidia.com/deeplearning/nccl; tests compare with nccl.h where CUDA has it.
 */
#ifndef WEFT_NCCL_H_
#define WEFT_NCCL_H_

#include <limits.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_VERSION_CODE 22809
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01

typedef struct CUstream_st* cudaStream_t;
typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclNumResults = 8
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5, /* operations made at run time begin here */
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#define WEFT_NCCL_CONFIG_MAGIC 0xcafebeef
typedef struct {
  size_t size;
  unsigned int magic, version;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char* netName;
  int splitShare, trafficClass;
  const char* commName;
  int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs, nChannelsPerNetPeer, nvlinkCentricSched;
} ncclConfig_t;

typedef struct {
  size_t size;
  unsigned int magic, version;
  float estimatedTime;
} ncclSimInfo_t;

/* Every function, also under its profiling name. */
#define WEFT_NCCL_DECLARE(result, name, parameters) \
  result name parameters;                           \
  result p##name parameters;

WEFT_NCCL_DECLARE(ncclResult_t, ncclMemAlloc, (void** ptr, size_t size))
WEFT_NCCL_DECLARE(ncclResult_t, ncclMemFree, (void* ptr))
WEFT_NCCL_DECLARE(ncclResult_t, ncclGetVersion, (int* version))
WEFT_NCCL_DECLARE(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommInitRankConfig,
                  (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommInitAll, (ncclComm_t * comms, int count, const int* devices))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommInitRankScalable,
                  (ncclComm_t * comm, int ranks, int rank, int ids, ncclUniqueId* id, ncclConfig_t* config))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommFinalize, (ncclComm_t comm))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommDestroy, (ncclComm_t comm))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommAbort, (ncclComm_t comm))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int flags))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommSplit,
                  (ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommShrink,
                  (ncclComm_t comm, int* excluded, int count, ncclComm_t* made, ncclConfig_t* config, int flags))
WEFT_NCCL_DECLARE(const char*, ncclGetErrorString, (ncclResult_t result))
WEFT_NCCL_DECLARE(const char*, ncclGetLastError, (ncclComm_t comm))
WEFT_NCCL_DECLARE(void, ncclResetDebugInit, (void))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* error))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommCount, (ncclComm_t comm, int* count))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommCuDevice, (ncclComm_t comm, int* device))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommUserRank, (ncclComm_t comm, int* rank))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommRegister, (ncclComm_t comm, void* memory, size_t size, void** handle))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommDeregister, (ncclComm_t comm, void* handle))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommWindowRegister,
                  (ncclComm_t comm, void* memory, size_t size, ncclWindow_t* window, int flags))
WEFT_NCCL_DECLARE(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t window))
WEFT_NCCL_DECLARE(ncclResult_t, ncclRedOpCreatePreMulSum,
                  (ncclRedOp_t * op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence,
                   ncclComm_t comm))
WEFT_NCCL_DECLARE(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))
WEFT_NCCL_DECLARE(ncclResult_t, ncclReduce,
                  (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                   ncclComm_t comm, cudaStream_t stream))
WEFT_NCCL_DECLARE(ncclResult_t, ncclBcast,
                  (void* data, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream))
WEFT_NCCL_DECLARE(ncclResult_t, ncclBroadcast,
                  (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                   cudaStream_t stream))
WEFT_NCCL_DECLARE(ncclResult_t, ncclAllReduce,
                  (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                   cudaStream_t stream))
WEFT_NCCL_DECLARE(ncclResult_t, ncclReduceScatter,
                  (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                   cudaStream_t stream))
WEFT_NCCL_DECLARE(ncclResult_t, ncclAllGather,
                  (const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream))
WEFT_NCCL_DECLARE(ncclResult_t, ncclAlltoAll,
                  (const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream))
WEFT_NCCL_DECLARE(ncclResult_t, ncclGather,
                  (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                   cudaStream_t stream))
WEFT_NCCL_DECLARE(ncclResult_t, ncclScatter,
                  (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                   cudaStream_t stream))
WEFT_NCCL_DECLARE(ncclResult_t, ncclSend,
                  (const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream))
WEFT_NCCL_DECLARE(ncclResult_t, ncclRecv,
                  (void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream))
WEFT_NCCL_DECLARE(ncclResult_t, ncclGroupStart, (void))
WEFT_NCCL_DECLARE(ncclResult_t, ncclGroupEnd, (void))
WEFT_NCCL_DECLARE(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * info))

#ifdef __cplusplus
}
#endif
#endif
