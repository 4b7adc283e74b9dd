#include "net/cuda/device.h"

namespace weft::net::cuda {

Result<std::unique_ptr<Device>> cuda_device() {
  return failure(Code::kNotFound, Blame::kProcess, "no CUDA device: weft was built without the CUDA toolkit");
}

}  // namespace weft::net::cuda
