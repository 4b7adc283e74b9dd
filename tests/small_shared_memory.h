#pragma once

#include <cstdint>

namespace weft::tests {

// While it lives, /dev/shm of this process and of those that it starts is an own one of N bytes, where the
// process may mount file systems. Requires: no other threads.
class SmallSharedMemory {
 public:
  explicit SmallSharedMemory(std::int64_t n);
  ~SmallSharedMemory();
  SmallSharedMemory(const SmallSharedMemory&) = delete;
  SmallSharedMemory& operator=(const SmallSharedMemory&) = delete;
  bool mounted() const { return mounted_; }

 private:
  bool mounted_ = false;
};

}  // namespace weft::tests
