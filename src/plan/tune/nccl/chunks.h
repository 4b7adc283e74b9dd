#pragma once

#include "plan/tune/nccl/model.h"

namespace weft::tune::nccl {

// The most data that NCCL sends as one message, a slice: what a receiver can use while the rest is still under way. The
// larger a message and the fewer the channels, the larger; small enough that the hops of a tree, or the heads of NVLS,
// overlap. Requires: row.channels > 0.
// Source: NCCL 2.30.7, src/enqueue.cc (chunk sizes), src/device/prims_simple.h (slices), buffers of 8 steps.
Bytes slice_of(const System& system, Collective collective, const Row& row, Bytes bytes);

// NVLS sums and copies in NCCL's own buffers: some warps of a block copy chunks in, others copy results out, while
// others sum. What nothing hides is the first chunk's way in and the last one's way out; a chunk has a slice for every
// head. (Buffers that are registered, -R 1 of nccl-tests, need neither.) Requires: row.slice is set. Source:
// NCCL 2.30.7, src/device/all_reduce.h.
Duration staging_of(const System& system, Collective collective, const Row& row, Bytes bytes);

}  // namespace weft::tune::nccl
