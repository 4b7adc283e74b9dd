#pragma once

#include <cstdint>

#include "exec/recorder/format.h"

// A rank's operations as NVTX ranges of the domain "weft", for Nsight Systems and other tools: "all_reduce 1048576
// float, ring Simple x2". Tools name their library in NVTX_INJECTION64_PATH; without one nothing is marked.
// Thread: any; a range may end on another thread than it began on.
namespace weft::recorder {

// False: no tool is there, or weft was built without the header of NVTX 3 (it comes with the CUDA toolkit).
bool ranges_wanted();
std::uint64_t begin_range(const Label& label, std::uint64_t count);
void end_range(std::uint64_t range);

}  // namespace weft::recorder
