#pragma once

#include <memory>
#include <string>

#include "exec/device/kernels.h"
#include "net/cuda/device.h"

namespace weft::stream {

// A process's GPUs: their memory and streams, and the kernels. Thread: any.
struct Runtime {
  std::unique_ptr<net::cuda::Device> device;
  std::unique_ptr<exec::device::Kernels> kernels;
};

// `device`: as WEFT_DEVICE; "host:2": the host as one device, which other processes know as number 2. Errors: bad
// input; see net::cuda::cuda_device.
Result<std::shared_ptr<Runtime>> open_runtime(const std::string& device);
// A runtime over the host as `devices` devices, of which other processes know the first as number `first`.
std::shared_ptr<Runtime> host_runtime(int devices, int first = 0);

// The calling thread's device, put back at the end.
class OnDevice {
 public:
  static Result<OnDevice> use(net::cuda::Device& device, int number);
  OnDevice(OnDevice&& o) noexcept : device_(std::exchange(o.device_, nullptr)), before_(o.before_) {}
  OnDevice& operator=(OnDevice&&) = delete;
  ~OnDevice() {
    if (device_ == nullptr) return;
    if (const auto now = device_->current(); !now || *now != before_) (void)device_->use(before_);
  }

 private:
  OnDevice(net::cuda::Device& device, int before) : device_(&device), before_(before) {}
  net::cuda::Device* device_;
  int before_;
};

// Memory of a device, given back at the end. What uses it must have ended then.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Allocates on the calling thread's device. Errors: kNoResources.
  static Result<DeviceMemory> make(std::shared_ptr<Runtime> runtime, Bytes bytes);
  DeviceMemory(DeviceMemory&& o) noexcept : runtime_(std::move(o.runtime_)), at_(std::exchange(o.at_, nullptr)) {}
  DeviceMemory& operator=(DeviceMemory&& o) noexcept {
    std::swap(runtime_, o.runtime_);
    std::swap(at_, o.at_);
    return *this;
  }
  ~DeviceMemory() {
    if (at_ != nullptr) (void)runtime_->device->release(at_);
  }
  std::byte* data() const { return static_cast<std::byte*>(at_); }

 private:
  std::shared_ptr<Runtime> runtime_;
  void* at_ = nullptr;
};

}  // namespace weft::stream
