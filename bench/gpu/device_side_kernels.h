#pragma once

#include <cuda_runtime.h>

#include "bench/gpu/device_side.h"

// The kernels of device_side.h and one that only computes, launched. All ranks are on the current device, and their
// blocks, `blocks` of each, in one cooperative launch.
namespace weft::gpu {

inline constexpr int kMostRanks = 16;

template <class Work>
struct OfRanks {
  Heap heap[kMostRanks];
  Work work[kMostRanks];
  std::int32_t ranks = 0, blocks = 0;
  std::uint32_t* failed = nullptr;  // counts threads that waited in vain
};

enum class Group : std::int32_t { kThread, kWarp, kBlock };
struct PingPongBy : PingPong {
  Group group = Group::kBlock;
};

cudaError_t launch(const OfRanks<PingPongBy>& all, cudaStream_t stream);
cudaError_t launch(const OfRanks<Dispatch>& all, cudaStream_t stream);
cudaError_t launch(const OfRanks<Transpose>& all, cudaStream_t stream);
// Multiplies and adds `rounds` times in every thread of the whole GPU; touches next to no memory.
cudaError_t launch_compute(float* result, int processors, int rounds, cudaStream_t stream);

}  // namespace weft::gpu
