#include "exec/device/kernels.h"

namespace weft::exec::device {

Result<std::unique_ptr<Kernels>> cuda_kernels() {
  return failure(Code::kNotFound, Blame::kProcess, "no CUDA device: weft was built without the CUDA toolkit");
}

}  // namespace weft::exec::device
