#pragma once

#include <map>

#include "base/mutex.h"
#include "net/cuda/device.h"

namespace weft::net::cuda {

// Memory that other processes can open: what device memory is to CUDA. Nothing of it has a name in a file system, so
// nothing stays behind. Thread: any.
class HostMemory {
 public:
  HostMemory() = default;
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // Errors: kNoResources.
  Result<void*> allocate(Bytes bytes);
  // Errors (bad input): it was not allocated here.
  Status release(void* memory);
  // Also of a place within what was allocated.
  Result<SharedMemory> share(const void* memory);
  // Errors (kPeerDied): the process that shared it has ended, or has released it.
  static Result<std::shared_ptr<void>> open(const MemoryHandle& handle);

 private:
  struct File {
    int fd;
    std::size_t size;
  };
  Mutex mutex_;
  std::map<const void*, File> files_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::net::cuda
