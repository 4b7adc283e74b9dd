// Kernels: what nvcc's code registers and launches.
#include <cstdio>
#include <cstring>
#include <optional>

#include "tests/host_cuda/api.h"
#include "tests/host_cuda/devices.h"
#include "tests/host_cuda/host_cuda.h"
#include "tests/host_cuda/registry.h"

namespace weft::host_cuda {
namespace {

struct Configuration {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

ptx::Dim of(const dim3& dim) { return {dim.x, dim.y, dim.z}; }

int resident(int threads) { return threads < 1 || threads > 1024 ? 0 : std::min(32, kThreadsOfProcessor / threads); }

const ptx::Kernel* find(const void* function) {
  const auto kernel = Registry::get().kernel(function);
  if (kernel) return *kernel;
  std::fprintf(stderr, "host_cuda: %s\n", kernel.error().message.c_str());
  return nullptr;
}

cudaError_t launch(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                   cudaStream_t handle) {
  const ptx::Kernel* const kernel = find(function);
  if (kernel == nullptr) return noted(cudaErrorInvalidDeviceFunction);
  if (of(grid).count() == 0 || of(block).count() == 0 || of(block).count() > 1024)
    return noted(cudaErrorInvalidConfiguration);
  std::vector<std::byte> values(parameter_bytes(*kernel));
  for (std::size_t p = 0; const ptx::Parameter& parameter : parameters(*kernel))
    std::memcpy(values.data() + parameter.offset, arguments[p++], parameter.size);
  return on_stream(handle, [&](const Locked& device, Stream& stream) {
    device->enqueue(stream, [=, values = std::move(values)] {
      return [=, id = std::optional<ptx::Machine::Number>()]() mutable {
        ptx::Machine& machine = Engine::get().machine();
        if (!id) id = machine.start(*kernel, of(grid), of(block), values, shared);
        return machine.done(*id);
      };
    });
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace weft::host_cuda

using namespace weft::host_cuda;

extern "C" {

struct Wrapper {
  int magic, version;
  const void* data;
  void* name;
};

void** __cudaRegisterFatBinary(void* wrapper) {
  return Registry::get().add_binary(static_cast<const Wrapper*>(wrapper)->data);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void** binary, const char* function, char*, const char* name, int, void*, void*, void*,
                            void*, int*) {
  Registry::get().add_kernel(binary, function, name);
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
char __cudaInitModule(void**) { return 0; }
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  if (configurations.empty()) return noted(cudaErrorMissingConfiguration);
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid, *block = last.block, *shared = last.shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                               cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, shared, stream);
}
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                             cudaStream_t stream) {
  return launch(function, grid, block, arguments, shared, stream);
}
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                        std::size_t shared, cudaStream_t stream) {
  const auto fit = static_cast<std::uint64_t>(resident(static_cast<int>(of(block).count())) * processors());
  if (of(grid).count() > fit) return noted(cudaErrorCooperativeLaunchTooLarge);
  return launch(function, grid, block, arguments, shared, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return launch(function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  if (find(function) == nullptr) return noted(cudaErrorInvalidDeviceFunction);
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads, std::size_t) {
  return *blocks = resident(threads), cudaSuccess;
}

void host_cuda_traffic(std::uint64_t* loaded, std::uint64_t* stored) {
  const Locked device;
  const weft::ptx::Traffic& traffic = device->machine().traffic();
  *loaded = traffic.loaded, *stored = traffic.stored;
}
}
