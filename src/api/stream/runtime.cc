#include "api/stream/runtime.h"

#include "base/text.h"
#include "net/cuda/host_device.h"

namespace weft::stream {

std::shared_ptr<Runtime> host_runtime(int devices, int first) {
  auto device = std::make_unique<net::cuda::HostDevice>(devices, first);
  auto kernels = exec::device::host_kernels(
      [host = device.get()](void* stream, std::function<void()> work) { return host->run(stream, std::move(work)); });
  return std::make_shared<Runtime>(Runtime{std::move(device), std::move(kernels)});
}

Result<std::shared_ptr<Runtime>> open_runtime(const std::string& device) {
  if (device == "host") return host_runtime(1);
  if (constexpr std::string_view kHost = "host:"; device.rfind(kHost, 0) == 0) {
    WEFT_TRY(const std::int64_t first, parse_integer("WEFT_DEVICE", device.substr(kHost.size()), 0, 1 << 20));
    return host_runtime(1, static_cast<int>(first));
  }
  WEFT_TRY(auto cuda, net::cuda::cuda_device());
  WEFT_TRY(auto kernels, exec::device::cuda_kernels());
  return std::make_shared<Runtime>(Runtime{std::move(cuda), std::move(kernels)});
}

Result<OnDevice> OnDevice::use(net::cuda::Device& device, int number) {
  WEFT_TRY(const int before, device.current());
  if (before != number) WEFT_CHECK(device.use(number));
  return OnDevice(device, before);
}

Result<DeviceMemory> DeviceMemory::make(std::shared_ptr<Runtime> runtime, Bytes bytes) {
  DeviceMemory memory;
  WEFT_TRY(memory.at_, runtime->device->allocate(bytes));
  memory.runtime_ = std::move(runtime);
  return memory;
}

}  // namespace weft::stream
