#include "exec/device/exchange.h"
#include "exec/device/strand_kernel.cuh"

namespace weft::exec::device {
namespace {

template <class T>
__global__ void divide_kernel_of(std::byte* data, std::int64_t bytes, std::int32_t divisor) {
  divide_elements<T>(data, bytes, divisor, std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x,
                     std::int64_t{gridDim.x} * blockDim.x);
}

__global__ void __launch_bounds__(kMostThreads, 1) exchange_kernel_of(const __grid_constant__ Exchange all) {
  __shared__ Operands operands;
  __shared__ Staged staged;
  __shared__ ExchangeMemory memory;
  CudaMachine machine(operands, staged);
  const int block = static_cast<int>(blockIdx.x);
  ExchangeBlock(machine, memory, all, all.of[block / all.blocks], block % all.blocks).run();
}

}  // namespace

const void* integer_kernel(DataType type) {
  const void* found = nullptr;
  with_type(type, [&]<class T>(T) {
    if constexpr (std::integral<T>) found = reinterpret_cast<const void*>(&strand_kernel<T>);
  });
  return found;
}

const void* exchange_kernel() { return reinterpret_cast<const void*>(&exchange_kernel_of); }

const void* divide_kernel(DataType type) {
  const void* found = nullptr;
  with_type(type, [&]<class T>(T) {
    if constexpr (std::integral<T>) found = reinterpret_cast<const void*>(&divide_kernel_of<T>);
  });
  return found;
}

}  // namespace weft::exec::device
