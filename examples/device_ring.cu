// Kernels that communicate: four ranks on one GPU, each puts its numbers to the next and waits for those of the one
// before it, all inside one kernel. Prints "right on all ranks"; exits with 2 where there is no GPU.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "weft/cuda.h"
#include "weft/device.cuh"

namespace {

constexpr int kRanks = 4, kCount = 1 << 16;

struct Heaps {
  weft::device::Heap of[kRanks];
};
// A rank's part of the window.
struct Part {
  std::uint64_t arrived, spare;
  int sent[kCount], received[kCount];
};

// A block for each rank.
__global__ void shift(const __grid_constant__ Heaps heaps, unsigned* in_vain) {
  const weft::device::Heap& heap = heaps.of[blockIdx.x];
  auto& part = *reinterpret_cast<Part*>(heap.bases[heap.rank]);
  for (int i = static_cast<int>(threadIdx.x); i < kCount; i += static_cast<int>(blockDim.x))
    part.sent[i] = heap.rank * kCount + i;
  __syncthreads();

  weft::device::GpuThread thread;
  weft::device::OneSided<weft::device::GpuThread, weft::device::ByBlock> block(thread, heap);
  block.put_signal(part.received, part.sent, sizeof part.sent, &part.arrived, 1, (heap.rank + 1) % heap.ranks);
  if (!block.wait(&part.arrived, 1)) atomicAdd(in_vain, 1);
}

int failed(const char* what) {
  std::fprintf(stderr, "device_ring: %s\n", what);
  return 2;
}

}  // namespace

int main() {
  const std::vector<int> devices(kRanks, 0);
  const auto ranks = weft::cuda::Communicator::open(devices);
  if (!ranks) return failed(ranks.error().message.c_str());
  const auto windows = weft::cuda::Window::allocate(*ranks, sizeof(Part));
  if (!windows) return failed(windows.error().message.c_str());

  Heaps heaps;
  for (int r = 0; r < kRanks; ++r) heaps.of[r] = (*windows)[static_cast<std::size_t>(r)].heap();
  unsigned* in_vain = nullptr;
  if (cudaMalloc(&in_vain, sizeof *in_vain) != cudaSuccess) return failed("cudaMalloc");
  cudaMemset(in_vain, 0, sizeof *in_vain);
  void* arguments[] = {&heaps, &in_vain};
  // Cooperative: refused unless all blocks, which wait for each other, fit at the same time.
  const void* const kernel = reinterpret_cast<const void*>(&shift);
  unsigned vain = 0;
  if (cudaLaunchCooperativeKernel(kernel, dim3(kRanks), dim3(256), arguments, 0, cudaStream_t{}) != cudaSuccess ||
      cudaMemcpy(&vain, in_vain, sizeof vain, cudaMemcpyDeviceToHost) != cudaSuccess)
    return failed(cudaGetErrorString(cudaGetLastError()));
  if (vain > 0) return failed("threads waited in vain");

  std::vector<Part> parts(1);
  for (int r = 0; r < kRanks; ++r) {
    const void* const there = (*windows)[static_cast<std::size_t>(r)].data();
    if (cudaMemcpy(parts.data(), there, sizeof(Part), cudaMemcpyDefault) != cudaSuccess) return failed("cudaMemcpy");
    for (int i = 0; i < kCount; ++i)
      if (parts[0].received[i] != (r + kRanks - 1) % kRanks * kCount + i) return failed("a wrong number arrived");
  }
  cudaFree(in_vain);
  std::puts("right on all ranks");
  return 0;
}
