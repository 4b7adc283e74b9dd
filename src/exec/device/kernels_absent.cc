#include "exec/device/kernels.h"

namespace weft::exec::device {
namespace {

tl::unexpected<Error> absent() {
  return failure(Code::kNotFound, Blame::kProcess, "no CUDA device: weft was built without the CUDA toolkit");
}

}  // namespace

Status launch(std::span<const Frame>, DataType, int, int, void*) { return absent(); }
Result<int> resident_blocks(DataType, int) { return absent(); }
Status divide_on_device(DataType, void*, std::int64_t, std::int32_t, void*) { return absent(); }

}  // namespace weft::exec::device
