#pragma once

#include "fabric/fabric.h"
#include "weft/types.h"

namespace weft::exec {

// Where results go: into the cache, or past it to memory, where they would only push out what is needed next.
enum class Stores { kCached, kStreamed };

// The vectorised kernel for one element type and operation: any number of sources to any number of destinations in one
// pass; the instruction set is chosen at run time. Sums are taken in the order of the sources, so that equal inputs
// give equal bits on every rank. Streamed: from 128 KiB on and where no destination is also a source; otherwise as
// cached.
fabric::Fold fold_for(DataType type, ReduceOp op, Stores stores = Stores::kCached);

}  // namespace weft::exec
