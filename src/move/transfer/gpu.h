#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "net/cuda/device.h"

namespace weft::transfer {

// Memory of a GPU as other processes of this machine open it.
struct GpuRecord {
  net::cuda::Identity gpu{};
  net::cuda::MemoryHandle handle{};
  std::int64_t offset = 0;
  bool shared = false;  // false: other processes cannot open it, and handle and offset are empty

  bool operator==(const GpuRecord&) const = default;
};

// Copies from and to the memory of this process's GPUs, on streams of its own. Each call returns when its copies are
// done, and what the caller's streams still do is not waited for. Thread: any; copies exclude each other.
class Gpu {
 public:
  // Errors (kNotFound): weft was built without CUDA, or there is no GPU.
  static Result<std::shared_ptr<Gpu>> open();
  explicit Gpu(std::unique_ptr<net::cuda::Device> device) : device_(std::move(device)) {}

  // Zeroed; freed with its last owner, which must not outlive this. Errors: there is no such GPU, kNoResources.
  Result<std::shared_ptr<void>> allocate(int gpu, Bytes bytes);
  // Errors (bad input): no such GPU, or not memory that it can use.
  Status check(int gpu, const void* memory);
  GpuRecord record_of(int gpu, const void* memory);
  // This process's number of a GPU. Errors: it is not visible here.
  Result<int> number_of(const net::cuda::Identity& gpu);
  // Another process's memory; closed with its last owner. Errors: that GPU is not visible here, or refuses.
  struct Opened {
    int gpu = 0;
    std::shared_ptr<void> memory;
  };
  Result<Opened> open_shared(const GpuRecord& record);

  struct Copy {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    Bytes bytes = 0;
  };
  // Each between memory of `gpu` and any other memory of this process. Errors: the runtime's.
  Status copy(int gpu, std::span<const Copy> copies);
  Status copy(int gpu, std::byte* to, const std::byte* from, Bytes bytes) {
    const Copy one{to, from, bytes};
    return copy(gpu, {&one, 1});
  }
  // Memory of the host for copies at full speed; given back with its last owner.
  Result<std::shared_ptr<void>> staging(Bytes bytes) { return device_->pinned(bytes); }
  // CRC-32C of a GPU's memory, by way of the host.
  Result<std::uint32_t> checksum(int gpu, const std::byte* data, Bytes bytes);

 private:
  Result<net::cuda::Stream> stream_of(int gpu);  // requires: mutex_

  std::unique_ptr<net::cuda::Device> device_;
  std::mutex mutex_;
  std::map<int, std::shared_ptr<void>> streams_;                   // by GPU; by mutex_
  std::map<net::cuda::MemoryHandle, std::weak_ptr<void>> opened_;  // none is opened twice; by mutex_
};

}  // namespace weft::transfer
