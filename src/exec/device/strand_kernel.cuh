#pragma once

#include "exec/device/kernel_families.h"
#include "exec/device/machine.cuh"
#include "exec/device/run.h"

namespace weft::exec::device {

template <class T>
__global__ void __launch_bounds__(kMostThreads) strand_kernel(const __grid_constant__ Frame frame) {
  __shared__ Operands operands;
  CudaMachine machine(operands);
  run_strand<T>(machine, frame, static_cast<int>(blockIdx.x));
}

}  // namespace weft::exec::device
