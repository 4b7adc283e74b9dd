#include "compat/nccl/types.h"

#include <cstring>

#include "base/result.h"
#include "exec/device/run.h"

namespace weft::compat::nccl {
Result<DataType> type_of(ncclDataType_t type) {
  constexpr DataType kTypes[] = {DataType::kInt8,    DataType::kUint8,    DataType::kInt32,      DataType::kUint32,
                                 DataType::kInt64,   DataType::kUint64,   DataType::kFloat16,    DataType::kFloat32,
                                 DataType::kFloat64, DataType::kBfloat16, DataType::kFloat8E4M3, DataType::kFloat8E5M2};
  if (type < 0 || type >= ncclNumTypes) return bad_input("{} is no ncclDataType_t", static_cast<int>(type));
  return kTypes[type];
}

Result<ReduceOp> op_of(ncclRedOp_t op) {
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAvg};
  if (op < 0 || op >= ncclNumOps) return bad_input("{} is no ncclRedOp_t", static_cast<int>(op));
  return kOps[op];
}

Scalar scalar_from(DataType type, const void* element) {
  Scalar scalar;
  exec::device::with_type(type, [&]<class T>(T value) {
    std::memcpy(&value, element, sizeof value);
    scalar = exec::scalar_of(value);
  });
  return scalar;
}

}  // namespace weft::compat::nccl
