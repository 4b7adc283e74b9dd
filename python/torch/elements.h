#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <optional>
#include <vector>

#include "weft/types.h"

// How tensors' elements and reductions are called in weft.
namespace weft::torch_adapter {

using at::Tensor;
using Tensors = std::vector<Tensor>;

inline std::optional<DataType> data_type(at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return DataType::kInt8;
    case at::kShort:
      return DataType::kInt16;
    case at::kInt:
      return DataType::kInt32;
    case at::kLong:
      return DataType::kInt64;
    case at::kByte:
    case at::kBool:
      return DataType::kUint8;
    case at::kUInt16:
      return DataType::kUint16;
    case at::kUInt32:
      return DataType::kUint32;
    case at::kUInt64:
      return DataType::kUint64;
    case at::kHalf:
      return DataType::kFloat16;
    case at::kBFloat16:
      return DataType::kBfloat16;
    case at::kFloat:
      return DataType::kFloat32;
    case at::kDouble:
      return DataType::kFloat64;
    case at::kFloat8_e4m3fn:
      return DataType::kFloat8E4M3;
    case at::kFloat8_e5m2:
      return DataType::kFloat8E5M2;
    default:
      return std::nullopt;
  }
}

// How a tensor's elements cross: as numbers of `type`, `factor` for each element.
struct Elements {
  DataType type;
  std::size_t factor;
};
// Where nothing is computed, every type crosses, as bytes if need be.
inline Elements moved(const Tensor& t) {
  if (const auto type = data_type(t.scalar_type())) return {*type, 1};
  return {DataType::kUint8, static_cast<std::size_t>(t.element_size())};
}

struct Reduction {
  Elements elements;
  ReduceOp op = ReduceOp::kSum;
  std::optional<Scalar> scalar = {};
};
inline Reduction reduction(const c10d::ReduceOp& asked, const Tensor& t) {
  Reduction r{moved(t)};
  const bool is_bool = t.scalar_type() == at::kBool;
  if (t.is_complex()) {
    using C = c10d::ReduceOp;
    TORCH_CHECK_VALUE(asked.op_ == C::SUM || asked.op_ == C::AVG || asked.op_ == C::PREMUL_SUM,
                      "weft: complex numbers have SUM, AVG and PREMUL_SUM only");
    r.elements = {t.scalar_type() == at::kComplexDouble ? DataType::kFloat64 : DataType::kFloat32, 2};
    TORCH_CHECK_VALUE(t.scalar_type() != at::kComplexHalf, "weft: ComplexHalf is not reduced");
  } else {
    TORCH_CHECK_VALUE(data_type(t.scalar_type()), "weft: elements of type ", t.scalar_type(), " are not reduced");
  }
  switch (asked.op_) {
    case c10d::ReduceOp::SUM:
      r.op = is_bool ? ReduceOp::kOr : ReduceOp::kSum;
      break;
    case c10d::ReduceOp::AVG:
      TORCH_CHECK_VALUE(!is_bool, "weft: booleans have no average");
      r.op = ReduceOp::kAvg;
      break;
    case c10d::ReduceOp::PRODUCT:
      r.op = is_bool ? ReduceOp::kAnd : ReduceOp::kProd;
      break;
    case c10d::ReduceOp::MIN:
      r.op = ReduceOp::kMin;
      break;
    case c10d::ReduceOp::MAX:
      r.op = ReduceOp::kMax;
      break;
    case c10d::ReduceOp::BAND:
      r.op = ReduceOp::kAnd;
      break;
    case c10d::ReduceOp::BOR:
      r.op = ReduceOp::kOr;
      break;
    case c10d::ReduceOp::BXOR:
      r.op = ReduceOp::kXor;
      break;
    case c10d::ReduceOp::PREMUL_SUM: {
      r.op = ReduceOp::kPremulSum;
      const auto* factor = static_cast<const c10d::PreMulSumSupplement*>(asked.supplement_.get());
      TORCH_CHECK_VALUE(factor != nullptr, "weft: PREMUL_SUM needs a factor");
      r.scalar =
          Scalar::of(factor->tensor_factor.defined() ? factor->tensor_factor.item<double>() : factor->double_factor);
      break;
    }
    default:
      TORCH_CHECK_VALUE(false, "weft: unknown reduction");
  }
  TORCH_CHECK_VALUE(applies(r.elements.type, r.op), "weft: BAND, BOR and BXOR are for integers, not for ",
                    t.scalar_type());
  return r;
}

inline void check_dense(const Tensor& t) {
  TORCH_CHECK_VALUE(t.device().is_cpu(), "weft: the tensor is on ", t.device(), ", but backend weft is for the CPU");
  TORCH_CHECK_VALUE(t.layout() == at::kStrided, "weft: the tensor is not dense");
}
inline void check_dense(const Tensors& ts) {
  for (const Tensor& t : ts) check_dense(t);
}
inline const Tensor& only(const Tensors& ts) {
  TORCH_CHECK_VALUE(ts.size() == 1, "weft: one tensor is expected, not ", ts.size());
  check_dense(ts[0]);
  return ts[0];
}

}  // namespace weft::torch_adapter
