// A CUDA device for torch's CPU build that holds no memory and runs nothing: a device guard and hooks, so that tensors
// of FakeTensorMode can have the device `cuda`. The library is loaded before torch, which asks for its hooks while it
// is imported (weftcomm_torch/rehearse/_rank.py). Streams of C++ are all the default stream; those of Python are
// recorded.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/Device.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdlib>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

thread_local DeviceIndex current_device = 0;

// WEFT_REHEARSAL_GPUS is set by the process that starts a rehearsed rank: the GPUs of a node of the machine.
DeviceIndex gpus() {
  static const DeviceIndex count = [] {
    const char* text = std::getenv("WEFT_REHEARSAL_GPUS");
    const int asked = text == nullptr ? 8 : std::atoi(text);
    return static_cast<DeviceIndex>(asked >= 1 && asked <= 64 ? asked : 8);
  }();
  return count;
}

void make_current(Device device) {
  if (device.index() >= 0) current_device = device.index();
}

struct RehearsedGuard final : c10::impl::DeviceGuardImplInterface {
  DeviceType type() const override { return DeviceType::CUDA; }
  Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    make_current(device);
    return before;
  }
  Device getDevice() const override { return Device(DeviceType::CUDA, current_device); }
  void setDevice(Device device) const override { make_current(device); }
  void uncheckedSetDevice(Device device) const noexcept override { make_current(device); }
  Stream getStream(Device device) const override {
    return Stream(Stream::DEFAULT, device.index() < 0 ? getDevice() : device);
  }
  Stream getDefaultStream(Device device) const override { return getStream(device); }
  Stream exchangeStream(Stream stream) const override { return stream; }
  DeviceIndex deviceCount() const noexcept override { return gpus(); }
  void record(void**, const Stream&, DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, DeviceIndex) const noexcept override {}
};

}  // namespace

C10_REGISTER_GUARD_IMPL(CUDA, RehearsedGuard)

// torch looks the class up by this name.
namespace at {

struct CUDAHooks final : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return gpus(); }
  int getNumGPUs() const override { return gpus(); }
  DeviceIndex getCurrentDevice() const override { return ::current_device; }
  DeviceIndex current_device() const override { return ::current_device; }
  void setCurrentDevice(DeviceIndex device) const override { ::current_device = device; }
  DeviceIndex exchangeDevice(DeviceIndex device) const override { return maybeExchangeDevice(device); }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override {
    const DeviceIndex before = ::current_device;
    if (device >= 0) ::current_device = device;
    return before;
  }
  void deviceSynchronize(DeviceIndex) const override {}
};
REGISTER_CUDA_HOOKS(CUDAHooks)

}  // namespace at
