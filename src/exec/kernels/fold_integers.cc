#include "exec/kernels/families.h"

// Folds of integers. Compiled once per instruction set by Highway's foreach_target; which one runs is chosen with the
// fold.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/fold_integers.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "exec/kernels/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::exec::HWY_NAMESPACE {

fabric::Fold choose_integer(DataType type, ReduceOp op, Stores stores) {
  switch (type) {
    case DataType::kInt8:
      return fold_with<std::int8_t, std::uint8_t>(op, stores);
    case DataType::kInt16:
      return fold_with<std::int16_t, std::uint16_t>(op, stores);
    case DataType::kInt32:
      return fold_with<std::int32_t, std::uint32_t>(op, stores);
    case DataType::kInt64:
      return fold_with<std::int64_t, std::uint64_t>(op, stores);
    case DataType::kUint8:
      return fold_with<std::uint8_t, std::uint8_t>(op, stores);
    case DataType::kUint16:
      return fold_with<std::uint16_t, std::uint16_t>(op, stores);
    case DataType::kUint32:
      return fold_with<std::uint32_t, std::uint32_t>(op, stores);
    case DataType::kUint64:
      return fold_with<std::uint64_t, std::uint64_t>(op, stores);
    default:
      return nullptr;
  }
}

// Bits have no type; bytes fit every size.
template <bool kStreams>
fabric::Fold bitwise_with(ReduceOp op) {
  return op == ReduceOp::kAnd  ? fold<std::uint8_t, And, kStreams>
         : op == ReduceOp::kOr ? fold<std::uint8_t, Or, kStreams>
                               : fold<std::uint8_t, Xor, kStreams>;
}

fabric::Fold choose_bitwise(ReduceOp op, Stores stores) {
  return stores == Stores::kStreamed ? bitwise_with<true>(op) : bitwise_with<false>(op);
}

}  // namespace weft::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::exec {

HWY_EXPORT(choose_integer);
HWY_EXPORT(choose_bitwise);

fabric::Fold integer_fold(DataType type, ReduceOp op, Stores stores) {
  return HWY_DYNAMIC_DISPATCH(choose_integer)(type, op, stores);
}

fabric::Fold bitwise_fold(ReduceOp op, Stores stores) { return HWY_DYNAMIC_DISPATCH(choose_bitwise)(op, stores); }

}  // namespace weft::exec
#endif  // HWY_ONCE
