// Devices, errors, versions.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/host_cuda/allocations.h"
#include "tests/host_cuda/api.h"
#include "tests/host_cuda/devices.h"

namespace weft::host_cuda {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device_of_thread = 0;

bool is_device(int device) { return device >= 0 && device < gpus(); }

struct Name {
  cudaError_t error;
  const char *name, *meaning;
};
constexpr Name kNames[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorMapBufferObjectFailed, "cudaErrorMapBufferObjectFailed", "mapping of buffer object failed"},
    {cudaErrorDeviceUninitialized, "cudaErrorDeviceUninitialized", "invalid device context"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"}};

const Name* find(cudaError_t error) {
  for (const Name& name : kNames)
    if (name.error == error) return &name;
  return nullptr;
}

}  // namespace

cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}
int current_device() { return device_of_thread; }

long setting(const char* name, long otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == 0 ? otherwise : std::strtol(value, nullptr, 10);
}
int gpus() { return static_cast<int>(std::min(setting("WEFT_MODEL_GPUS", 1), 64L)); }
int processors() { return static_cast<int>(setting("WEFT_MODEL_PROCESSORS", 8)); }

}  // namespace weft::host_cuda

using namespace weft::host_cuda;

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorString(cudaError_t error) {
  const auto* const name = find(error);
  return name != nullptr ? name->meaning : "unrecognized error code";
}
const char* cudaGetErrorName(cudaError_t error) {
  const auto* const name = find(error);
  return name != nullptr ? name->name : "unrecognized error code";
}

cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = gpus();
  return noted(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* device) { return *device = device_of_thread, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  if (!is_device(device)) return noted(cudaErrorInvalidDevice);
  device_of_thread = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (properties == nullptr || !is_device(device)) return noted(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "PTX on the host");
  std::memcpy(properties->uuid.bytes, "weft on the host", sizeof properties->uuid.bytes);
  properties->uuid.bytes[15] = static_cast<char>(device);
  properties->totalGlobalMem = Allocations::kTotal;
  properties->sharedMemPerBlock = 48 << 10;
  properties->regsPerBlock = 1 << 16;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024, properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 0x7fffffff, properties->maxGridSize[1] = properties->maxGridSize[2] = 0xffff;
  properties->major = 9;
  properties->multiProcessorCount = processors();
  properties->maxThreadsPerMultiProcessor = kThreadsOfProcessor;
  properties->unifiedAddressing = properties->canMapHostMemory = properties->cooperativeLaunch = 1;
  properties->concurrentKernels = 1;
  properties->pciBusID = device + 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties{};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      break;
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = properties.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlock);
      break;
    case cudaDevAttrPciBusId:
      *value = properties.pciBusID;
      break;
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels:
      *value = 1;
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int device) {
  if (!is_device(device)) return noted(cudaErrorInvalidDevice);
  std::snprintf(id, static_cast<std::size_t>(size), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = 0, *greatest = -5, cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!is_device(device) || !is_device(peer)) return noted(cudaErrorInvalidDevice);
  return *can = device != peer, cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  thread_local unsigned long enabled[64] = {};  // by device, a bit for each peer
  if (!is_device(peer) || peer == device_of_thread) return noted(cudaErrorInvalidDevice);
  unsigned long& of = enabled[device_of_thread];
  if ((of >> peer & 1) != 0) return noted(cudaErrorPeerAccessAlreadyEnabled);
  of |= 1UL << peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int device, int peer) {
  if (!is_device(device) || !is_device(peer)) return noted(cudaErrorInvalidDevice);
  return *value = attribute == cudaDevP2PAttrPerformanceRank ? 0 : 1, cudaSuccess;
}
cudaError_t cudaDeviceReset() { return cudaSuccess; }
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }
}
