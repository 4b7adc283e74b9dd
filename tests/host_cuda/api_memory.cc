// Memory, copies, what other processes may map.
#include <cuda.h>

#include <cstring>

#include "tests/host_cuda/allocations.h"
#include "tests/host_cuda/api.h"

namespace weft::host_cuda {
namespace {

using Kind = Allocations::Kind;

bool pageable(const void* at) {
  Allocations::One one{};
  return !Allocations::get().find(at, &one);
}

// The device's memory is open to its thread's instructions while one of these lives.
class Access {
 public:
  Access(const void* one, const void* other) : places_{one, other} {
    for (const void* at : places_) Allocations::get().guard(at, false);
  }
  ~Access() {
    for (const void* at : places_) Allocations::get().guard(at, true);
  }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

 private:
  const void* places_[2];
};

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaStream_t handle) {
  if (bytes == 0) return cudaSuccess;
  if (to == nullptr || from == nullptr) return noted(cudaErrorInvalidValue);
  const bool waits = pageable(to);
  std::shared_ptr<std::vector<std::byte>> staged;  // pageable memory is read at the call
  if (pageable(from)) {
    const auto* const bytes_of = static_cast<const std::byte*>(from);
    staged = std::make_shared<std::vector<std::byte>>(bytes_of, bytes_of + bytes);
  }
  return on_stream(handle, [&](const Locked& device, Stream& stream) {
    const bool captured = stream.captured.graph != nullptr;
    device->enqueue(stream, [=] {
      return [=] {
        const Access access(to, from);
        return std::memmove(to, staged != nullptr ? staged->data() : from, bytes), true;
      };
    });
    return waits && !captured && !device->until_ended(stream) ? cudaErrorLaunchFailure : cudaSuccess;
  });
}

cudaError_t set(void* to, int value, std::size_t bytes, cudaStream_t handle) {
  if (bytes == 0) return cudaSuccess;
  if (to == nullptr || pageable(to)) return noted(cudaErrorInvalidValue);
  return on_stream(handle, [&](const Locked& device, Stream& stream) {
    device->enqueue(stream, [=] {
      return [=] {
        const Access access(to, to);
        return std::memset(to, value, bytes), true;
      };
    });
    return cudaSuccess;
  });
}

// The driver's, by their names.
CUresult address_range(CUdeviceptr* base, std::size_t* size, CUdeviceptr at) {
  Allocations::One one{};
  if (!Allocations::get().find(reinterpret_cast<const void*>(at), &one)) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = reinterpret_cast<CUdeviceptr>(one.at);
  if (size != nullptr) *size = one.bytes;
  return CUDA_SUCCESS;
}
CUresult wait_value(CUstream handle, CUdeviceptr at, cuuint32_t value, unsigned flags) {
  const auto* const word = reinterpret_cast<const cuuint32_t*>(at);
  const auto holds = [=] {
    const cuuint32_t there = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    if (flags == CU_STREAM_WAIT_VALUE_EQ) return there == value;
    if (flags == CU_STREAM_WAIT_VALUE_AND) return (there & value) != 0;
    return static_cast<std::int32_t>(there - value) >= 0;
  };
  const cudaError_t error = on_stream(handle, [&](const Locked& device, Stream& stream) {
    device->enqueue(stream, [holds] { return holds; });
    return cudaSuccess;
  });
  return error == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult write_value(CUstream handle, CUdeviceptr at, cuuint32_t value, unsigned) {
  auto* const word = reinterpret_cast<cuuint32_t*>(at);
  const cudaError_t error = on_stream(handle, [&](const Locked& device, Stream& stream) {
    device->enqueue(stream, [=] { return [=] { return __atomic_store_n(word, value, __ATOMIC_RELEASE), true; }; });
    return cudaSuccess;
  });
  return error == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

cudaError_t entry_point(const char* name, void** function, cudaDriverEntryPointQueryResult* found) {
  *function = nullptr;
  if (std::strcmp(name, "cuMemGetAddressRange") == 0) *function = reinterpret_cast<void*>(&address_range);
  if (std::strcmp(name, "cuStreamWaitValue32") == 0) *function = reinterpret_cast<void*>(&wait_value);
  if (std::strcmp(name, "cuStreamWriteValue32") == 0) *function = reinterpret_cast<void*>(&write_value);
  if (found != nullptr)
    *found = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return *function != nullptr ? cudaSuccess : noted(cudaErrorSymbolNotFound);
}

}  // namespace
}  // namespace weft::host_cuda

using namespace weft::host_cuda;

extern "C" {

cudaError_t cudaMalloc(void** at, std::size_t bytes) {
  return noted(Allocations::get().allocate(at, bytes, current_device()));
}
cudaError_t cudaFree(void* at) { return noted(Allocations::get().release(at, Kind::kDevice)); }
cudaError_t cudaHostAlloc(void** at, std::size_t bytes, unsigned) {
  return noted(Allocations::get().pin(at, bytes, current_device()));
}
cudaError_t cudaMallocHost(void** at, std::size_t bytes) {
  return noted(Allocations::get().pin(at, bytes, current_device()));
}
cudaError_t cudaFreeHost(void* at) { return noted(Allocations::get().release(at, Kind::kPinned)); }
cudaError_t cudaHostGetDevicePointer(void** at, void* host, unsigned) { return *at = host, cudaSuccess; }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = Allocations::kTotal;
  *free = Allocations::kTotal - Allocations::get().used();
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* at) {
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = -1;
  Allocations::One one{};
  if (!Allocations::get().find(at, &one)) return cudaSuccess;
  attributes->type = one.kind == Kind::kPinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->device = one.device;
  attributes->devicePointer = const_cast<void*>(at);
  if (one.kind == Kind::kPinned) attributes->hostPointer = const_cast<void*>(at);
  return cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* at) {
  return noted(Allocations::get().handle(handle, at));
}
cudaError_t cudaIpcOpenMemHandle(void** at, cudaIpcMemHandle_t handle, unsigned) {
  return noted(Allocations::get().open(at, handle));
}
cudaError_t cudaIpcCloseMemHandle(void* at) { return noted(Allocations::get().release(at, Kind::kMapped)); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return copy(to, from, bytes, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  const cudaError_t error = copy(to, from, bytes, nullptr);
  if (error != cudaSuccess) return error;
  return on_stream(nullptr, [](const Locked& device, Stream& stream) {
    return device->until_ended(stream) ? cudaSuccess : cudaErrorLaunchFailure;
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return set(to, value, bytes, stream);
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) { return set(to, value, bytes, nullptr); }

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  return entry_point(name, function, found);
}
}
