#include "exec/kernels/families.h"

// Folds of the floats of 8 bits. Compiled once per instruction set by Highway's foreach_target; which one runs is
// chosen with the fold.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/fold_float8.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "exec/kernels/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::exec::HWY_NAMESPACE {

fabric::Fold choose_float8(DataType type, ReduceOp op, Stores stores) {
  return type == DataType::kFloat8E4M3 ? fold_with<Float8E4M3, Float8E4M3>(op, stores)
                                       : fold_with<Float8E5M2, Float8E5M2>(op, stores);
}

}  // namespace weft::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::exec {

HWY_EXPORT(choose_float8);

fabric::Fold float8_fold(DataType type, ReduceOp op, Stores stores) {
  return HWY_DYNAMIC_DISPATCH(choose_float8)(type, op, stores);
}

}  // namespace weft::exec
#endif  // HWY_ONCE
