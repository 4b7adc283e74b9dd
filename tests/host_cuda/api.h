#pragma once

#include <cuda_runtime_api.h>

#include "tests/host_cuda/engine.h"

// Helpers that the functions of CUDA's runtime here share.
namespace weft::host_cuda {

// Keeps the thread's last error, which cudaGetLastError returns. Returns the error.
cudaError_t noted(cudaError_t error);
int current_device();  // of the thread

// What most calls on a stream do: find it, and say what is wrong with it or the device.
template <class Use>
cudaError_t on_stream(cudaStream_t handle, Use&& use) {
  const Locked device;
  if (device->failed()) return noted(cudaErrorLaunchFailure);
  Stream* const stream = device->find(handle, current_device());
  if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
  return noted(use(device, *stream));
}

// A function of the host in a stream's turn.
Maker host_call(std::function<void()> function);

}  // namespace weft::host_cuda
