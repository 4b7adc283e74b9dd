#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <mutex>

// Memory of devices, which other processes may map, and pinned memory of the host. Thread: any.
namespace weft::host_cuda {

class Allocations {
 public:
  enum class Kind { kDevice, kPinned, kMapped };
  struct One {
    std::byte* at;
    std::size_t bytes;
    Kind kind;
    int device = 0, file = -1;  // of device memory
  };

  static Allocations& get();

  cudaError_t allocate(void** at, std::size_t bytes, int device);
  cudaError_t pin(void** at, std::size_t bytes, int device);
  // Releases what allocate, pin or open made. Errors: cudaErrorInvalidValue.
  cudaError_t release(void* at, Kind kind);
  cudaError_t handle(cudaIpcMemHandle_t* handle, void* at);
  cudaError_t open(void** at, const cudaIpcMemHandle_t& handle);
  // The allocation that holds this byte; false: pageable memory, or none.
  bool find(const void* at, One* found) const;
  std::size_t used() const;
  // Lets instructions of this process use the device's memory around this byte, or not; see WEFT_MODEL_GUARDED. Nothing
  // happens without it, and with other memory.
  void guard(const void* at, bool closed) const;
  static constexpr std::size_t kTotal = std::size_t{6} << 30;

 private:
  void add(const One& one, const char* what);
  mutable std::mutex mutex_;
  std::map<const std::byte*, One> all_;
};

}  // namespace weft::host_cuda
