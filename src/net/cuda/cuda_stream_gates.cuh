#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "net/cuda/device.h"

namespace weft::net::cuda {

// While one lives, the calling thread may allocate, copy and wait although a stream is captured, by whichever thread.
class PastCaptures {
 public:
  PastCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~PastCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  PastCaptures(const PastCaptures&) = delete;
  PastCaptures& operator=(const PastCaptures&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// Errors: in CUDA's words, after the call that failed.
Status checked(cudaError_t error, const char* call);

// Pinned memory is slow to get and to give back; blocks of powers of two are kept for the next one. Thread: any.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  ~PinnedPool();
  Result<std::shared_ptr<void>> take(std::size_t bytes);
  // So much that is not in use, of which blocks are cut.
  Status reserve(std::size_t bytes);

 private:
  Result<std::byte*> allocate(std::size_t bytes);
  Result<void*> block_of(std::size_t size);
  Mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_ WEFT_GUARDED_BY(mutex_);
  std::vector<void*> allocated_ WEFT_GUARDED_BY(mutex_);
  std::span<std::byte> reserved_ WEFT_GUARDED_BY(mutex_);  // of the last of them
};

using WaitValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
class Words;

// Places in streams that wait for a word in pinned memory. Thread: any.
class StreamGates {
 public:
  // `wait_value`: the driver's cuStreamWaitValue32.
  StreamGates(WaitValue wait_value, std::shared_ptr<PinnedPool> pool);
  // `own`: a stream of weft's own on the same device.
  Result<std::unique_ptr<StreamGate>> hand_over(Stream stream, cudaStream_t own);

 private:
  WaitValue wait_value_;
  std::shared_ptr<PinnedPool> pool_;
  std::shared_ptr<Words> words_;
};

}  // namespace weft::net::cuda
