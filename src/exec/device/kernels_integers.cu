#include "exec/device/strand_kernel.cuh"

namespace weft::exec::device {
namespace {

template <class T>
__global__ void divide_kernel_of(std::byte* data, std::int64_t bytes, std::int32_t divisor) {
  divide_elements<T>(data, bytes, divisor, std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x,
                     std::int64_t{gridDim.x} * blockDim.x);
}

}  // namespace

const void* integer_kernel(DataType type) {
  const void* found = nullptr;
  with_type(type, [&]<class T>(T) {
    if constexpr (std::integral<T>) found = reinterpret_cast<const void*>(&strand_kernel<T>);
  });
  return found;
}

const void* divide_kernel(DataType type) {
  const void* found = nullptr;
  with_type(type, [&]<class T>(T) {
    if constexpr (std::integral<T>) found = reinterpret_cast<const void*>(&divide_kernel_of<T>);
  });
  return found;
}

}  // namespace weft::exec::device
