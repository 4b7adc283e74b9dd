#pragma once

#include <span>

#include "base/result.h"
#include "exec/device/frame.h"

namespace weft::exec::device {

// The kernels, where weft was built with CUDA; otherwise every call fails with kNotFound. All are for the calling
// thread's device. Errors: kSystem with CUDA's own words.

// One collective of one rank, or of several ranks of this device together, all with so many strands: a block for each.
// `stream`: a cudaStream_t. Returns at once. Requires: the blocks of all ranks fit on their devices at the same time,
// see resident_blocks; of those launched together CUDA checks it. Errors: kUnsupported: too many of them.
Status launch(std::span<const Frame> ranks, DataType type, int strands, int threads, void* stream);
// How many blocks of so many threads a device can hold at once. Also loads the kernel, which CUDA otherwise does when
// it is first launched, and then waits for kernels that run and may be waiting for this one.
Result<int> resident_blocks(DataType type, int threads);
// The end of an average of integers, in stream order.
Status divide_on_device(DataType type, void* data, std::int64_t bytes, std::int32_t divisor, void* stream);

}  // namespace weft::exec::device
