#include <cuda_runtime.h>

#include <algorithm>

#include "exec/device/kernel_families.h"
#include "exec/device/kernels.h"

namespace weft::exec::device {
namespace {

Status checked(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();  // or the application's next look at it would find this one
  return failure(Code::kSystem, Blame::kProcess, "{}: {}", call, cudaGetErrorString(error));
}

// Overloads for C and C++ share these names.
using Launch = cudaError_t (*)(const void*, dim3, dim3, void**, std::size_t, cudaStream_t);
constexpr Launch launch_alone = cudaLaunchKernel, launch_together = cudaLaunchCooperativeKernel;

const void* kernel_of(DataType type) { return is_float(type) ? float_kernel(type) : integer_kernel(type); }

// Otherwise CUDA loads a kernel when it is first launched, and waits for kernels that run and may wait for this one.
Status load(const void* kernel) {
  cudaFuncAttributes attributes{};
  return checked(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
}

Result<int> resident(const void* kernel, int threads) {
  WEFT_CHECK(load(kernel));
  int device = 0, processors = 0, each = 0;
  WEFT_CHECK(checked(cudaGetDevice(&device), "cudaGetDevice"));
  WEFT_CHECK(
      checked(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute"));
  WEFT_CHECK(checked(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, 0),
                     "cudaOccupancyMaxActiveBlocksPerMultiprocessor"));
  return processors * each;
}

// A block for each rank and strand. A cooperative launch is refused unless all blocks fit, but two of them may not run
// beside each other.
Status launch_blocks(const void* kernel, std::size_t ranks, int blocks, int threads, const void* argument,
                     void* stream) {
  const void* arguments[] = {argument};
  const dim3 all(static_cast<unsigned>(blocks) * static_cast<unsigned>(ranks));
  const auto call = ranks > 1 ? launch_together : launch_alone;
  return checked(call(kernel, all, dim3(static_cast<unsigned>(threads)), const_cast<void**>(arguments), 0,
                      static_cast<cudaStream_t>(stream)),
                 "launching a kernel");
}

class CudaKernels final : public Kernels {
 public:
  int threads() const override { return kMostThreads; }
  Result<int> resident_blocks(DataType type, int threads) override {
    if (!is_float(type)) WEFT_CHECK(load(divide_kernel(type)));  // queued behind ranks that wait for others
    return resident(kernel_of(type), threads);
  }
  Result<int> resident_exchange_blocks(int threads) override { return resident(exchange_kernel(), threads); }
  Status launch(std::span<const Frame> ranks, DataType type, int strands, int threads, void* stream) override;
  Status exchange(const Exchange& ranks, int threads, void* stream) override;
  Status divide(DataType type, void* data, std::int64_t bytes, std::int32_t divisor, void* stream) override;
};

Status CudaKernels::launch(std::span<const Frame> ranks, DataType type, int strands, int threads, void* stream) {
  if (ranks.size() > kMostTogether)
    return failure(Code::kUnsupported, Blame::kInput, "{} ranks in one launch; at most {}", ranks.size(),
                   kMostTogether);
  Frames frames{.count = static_cast<std::int32_t>(ranks.size()), .strands = strands, .of = {}};
  std::copy(ranks.begin(), ranks.end(), frames.of);
  return launch_blocks(kernel_of(type), ranks.size(), strands, threads, &frames, stream);
}

Status CudaKernels::exchange(const Exchange& ranks, int threads, void* stream) {
  return launch_blocks(exchange_kernel(), static_cast<std::size_t>(ranks.count), ranks.blocks, threads, &ranks, stream);
}

Status CudaKernels::divide(DataType type, void* data, std::int64_t bytes, std::int32_t divisor, void* stream) {
  constexpr unsigned kBlocks = 128, kThreads = 256;
  const void* arguments[] = {&data, &bytes, &divisor};
  return checked(cudaLaunchKernel(divide_kernel(type), dim3(kBlocks), dim3(kThreads), const_cast<void**>(arguments), 0,
                                  static_cast<cudaStream_t>(stream)),
                 "cudaLaunchKernel");
}

}  // namespace

Result<std::unique_ptr<Kernels>> cuda_kernels() { return std::make_unique<CudaKernels>(); }

}  // namespace weft::exec::device
