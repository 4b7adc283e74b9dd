#include "net/ucx/ucx.h"

namespace weft::net::ucx {

fabric::Capabilities capabilities() {
  return {.name = "ucx",
          .max_strands = messages::kStrands,
          .max_slice = messages::kSlotBytes,
          .scratch_bytes = static_cast<Bytes>(messages::kScratchBytes)};
}

}  // namespace weft::net::ucx
