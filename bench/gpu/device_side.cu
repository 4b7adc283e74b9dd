#include "bench/gpu/device_side_kernels.h"
#include "weft/device.cuh"

namespace weft::gpu {
namespace {

constexpr int kThreads = 256;

__device__ bool carry_out(device::GpuThread& machine, const Heap& heap, const Dispatch& work, int block, int blocks) {
  return dispatch_tokens(machine, heap, work, block, blocks);
}
__device__ bool carry_out(device::GpuThread& machine, const Heap& heap, const Transpose& work, int block, int blocks) {
  return transpose(machine, heap, work, block, blocks);
}
__device__ bool carry_out(device::GpuThread& machine, const Heap& heap, const PingPongBy& work, int, int) {
  if (work.group == Group::kThread) return ping_pong<ByThread>(machine, heap, work);
  return work.group == Group::kWarp ? ping_pong<ByWarp>(machine, heap, work) : ping_pong<ByBlock>(machine, heap, work);
}

template <class Work>
__global__ void __launch_bounds__(kThreads) kernel(const __grid_constant__ OfRanks<Work> all) {
  device::GpuThread machine;
  const int rank = static_cast<int>(blockIdx.x) / all.blocks, block = static_cast<int>(blockIdx.x) % all.blocks;
  if (!carry_out(machine, all.heap[rank], all.work[rank], block, all.blocks)) atomicAdd(all.failed, 1);
}

__global__ void compute(float* result, int rounds) {
  float x = static_cast<float>(threadIdx.x);
  for (int i = 0; i < rounds; ++i) x = x * 0.999f + 1.0f;
  if (x == -1.0f) *result = x;  // never: but the compiler cannot know
}

template <class Work>
cudaError_t launch_work(const OfRanks<Work>& all, cudaStream_t stream) {
  const void* arguments[] = {&all};
  return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&kernel<Work>),
                                     dim3(static_cast<unsigned>(all.ranks * all.blocks)), dim3(kThreads),
                                     const_cast<void**>(arguments), 0, stream);
}

}  // namespace

cudaError_t launch(const OfRanks<Dispatch>& all, cudaStream_t stream) { return launch_work(all, stream); }
cudaError_t launch(const OfRanks<PingPongBy>& all, cudaStream_t stream) { return launch_work(all, stream); }
cudaError_t launch(const OfRanks<Transpose>& all, cudaStream_t stream) { return launch_work(all, stream); }

cudaError_t launch_compute(float* result, int processors, int rounds, cudaStream_t stream) {
  compute<<<static_cast<unsigned>(processors * 4), 512, 0, stream>>>(result, rounds);
  return cudaGetLastError();
}

}  // namespace weft::gpu
