#pragma once

#include "exec/device/kernel_families.h"
#include "exec/device/machine.cuh"
#include "exec/device/run.h"

namespace weft::exec::device {

template <class T>
__global__ void __launch_bounds__(kMostThreads, 1) strand_kernel(const __grid_constant__ Frames frames) {
  __shared__ Operands operands;
  __shared__ Staged staged;
  CudaMachine machine(operands, staged);
  const int block = static_cast<int>(blockIdx.x);
  run_strand<T>(machine, frames.of[block / frames.strands], block % frames.strands);
}

}  // namespace weft::exec::device
