#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>

#include <nvshmem.h>
#include "base/mutex.h"
#include "net/cuda/device.h"
#include "net/cuda/work_queue.h"

namespace weft::compat::nvshmem {

// Work in the order of streams. Each stream is a queue with a thread of its own, since a wait may last. Where the
// stream is CUDA's, it waits at a gate until the work is done. Thread: any.
class Streams {
 public:
  Streams();

  // Errors: the process uses a CUDA runtime, and weft has no CUDA device: its streams would not wait.
  Status push(cudaStream_t stream, std::function<void()> work);
  // Returns when what was pushed has ended.
  void wait(cudaStream_t stream);
  void wait_for_all();

  cudaStream_t make();
  bool has(cudaStream_t stream);
  // Waits for its work first. False: make() did not return it.
  bool end(cudaStream_t stream);

 private:
  net::cuda::WorkQueue& queue(cudaStream_t stream);

  std::unique_ptr<net::cuda::Device> device_;  // null: no CUDA
  Status trouble_;
  Mutex mutex_;
  std::map<cudaStream_t, std::unique_ptr<net::cuda::WorkQueue>> queues_ WEFT_GUARDED_BY(mutex_);
  std::set<cudaStream_t> made_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::compat::nvshmem
