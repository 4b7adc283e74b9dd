#pragma once

#include "stream/group.h"

namespace weft::stream {

// How the collectives of ranks on GPUs are carried out, and why so; one line.
struct Path {
  std::shared_ptr<Group> group;  // null: through host memory
  std::string why;
};

// Kernels where all ranks are parts of one process and fit, else host memory. `forced`: as WEFT_DEVICE_PATH.
// Errors (bad input): no ranks, a device that there is not.
Result<Path> choose_path(std::shared_ptr<Runtime> runtime, std::span<const int> devices, bool one_process,
                         const std::string& forced, std::chrono::nanoseconds timeout);

}  // namespace weft::stream
