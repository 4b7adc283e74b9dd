#include "compat/nccl/types.h"

#include <cstring>

#include "base/result.h"

namespace weft::compat::nccl {
namespace {

template <class T>
T element_at(const void* memory) {
  T value;
  std::memcpy(&value, memory, sizeof value);
  return value;
}

}  // namespace

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
  switch (type) {
    case DataType::kInt8:
      return Scalar::of(std::int64_t{element_at<std::int8_t>(element)});
    case DataType::kUint8:
      return Scalar::of(std::int64_t{element_at<std::uint8_t>(element)});
    case DataType::kInt16:
      return Scalar::of(std::int64_t{element_at<std::int16_t>(element)});
    case DataType::kUint16:
      return Scalar::of(std::int64_t{element_at<std::uint16_t>(element)});
    case DataType::kInt32:
      return Scalar::of(std::int64_t{element_at<std::int32_t>(element)});
    case DataType::kUint32:
      return Scalar::of(std::int64_t{element_at<std::uint32_t>(element)});
    case DataType::kInt64:
    case DataType::kUint64:  // modulo 2^64, as the sum is
      return Scalar::of(element_at<std::int64_t>(element));
    case DataType::kFloat16:
      return Scalar::of(double{static_cast<float>(element_at<Float16>(element))});
    case DataType::kBfloat16:
      return Scalar::of(double{static_cast<float>(element_at<Bfloat16>(element))});
    case DataType::kFloat8E4M3:
      return Scalar::of(double{static_cast<float>(element_at<Float8E4M3>(element))});
    case DataType::kFloat8E5M2:
      return Scalar::of(double{static_cast<float>(element_at<Float8E5M2>(element))});
    case DataType::kFloat32:
      return Scalar::of(double{element_at<float>(element)});
    case DataType::kFloat64:
      return Scalar::of(element_at<double>(element));
  }
  return {};
}

}  // namespace weft::compat::nccl
