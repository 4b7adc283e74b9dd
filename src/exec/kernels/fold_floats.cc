#include "exec/kernels/families.h"

// Folds of float and double. Compiled once per instruction set by Highway's foreach_target; which one runs is chosen
// with the fold.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/fold_floats.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "exec/kernels/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::exec::HWY_NAMESPACE {

fabric::Fold choose_float(DataType type, ReduceOp op, Stores stores) {
  return type == DataType::kFloat32 ? fold_with<float, float>(op, stores) : fold_with<double, double>(op, stores);
}

}  // namespace weft::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::exec {

HWY_EXPORT(choose_float);

fabric::Fold float_fold(DataType type, ReduceOp op, Stores stores) {
  return HWY_DYNAMIC_DISPATCH(choose_float)(type, op, stores);
}

}  // namespace weft::exec
#endif  // HWY_ONCE
