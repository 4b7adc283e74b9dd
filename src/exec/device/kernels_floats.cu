#include "exec/device/strand_kernel.cuh"

namespace weft::exec::device {

const void* float_kernel(DataType type) {
  const void* found = nullptr;
  with_type(type, [&]<class T>(T) {
    if constexpr (!std::integral<T>) found = reinterpret_cast<const void*>(&strand_kernel<T>);
  });
  return found;
}

}  // namespace weft::exec::device
