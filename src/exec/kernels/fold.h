#pragma once

#include "exec/fabric/fabric.h"
#include "weft/types.h"

namespace weft::exec {

// Where results go: into the cache, or past it to memory, where they would only push out what is needed next.
enum class Stores { kCached, kStreamed };

// The vectorised kernel for one element type and operation: any number of sources to any number of destinations in one
// pass; the instruction set is chosen here, once. Sources are combined in their order, narrow floats as float and
// rounded once at the end, so that equal inputs give equal bits on every rank, wherever an element stands (but for the
// sign and payload of a NaN). Only sums look at scales, averages and premultiplied sums among them; an average of
// integers is their sum until `divide`. Streamed: from 128 KiB on and where no destination is also a source; otherwise
// as cached. Null where the operation does not apply to the type.
fabric::Fold fold_for(DataType type, ReduceOp op, Stores stores = Stores::kCached);

// How type and operation are named to other processes, and the kernel of such a name; null: nothing has that name.
std::uint32_t reduction_number(DataType type, ReduceOp op);
fabric::Fold fold_of_reduction(std::uint32_t number);

}  // namespace weft::exec
