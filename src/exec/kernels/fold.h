#pragma once

#include "fabric/fabric.h"
#include "weft/types.h"

namespace weft::exec {

// The vectorised kernel for one element type and operation: any number of sources to any number of destinations in one
// pass; the instruction set is chosen at run time. Sums are taken in the order of the sources, so that equal inputs
// give equal bits on every rank. Past half a megabyte of destination the stores bypass the cache, unless the
// destination is also a source.
fabric::Fold fold_for(DataType type, ReduceOp op);

}  // namespace weft::exec
