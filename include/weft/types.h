#pragma once

#include <cstdint>

namespace weft {

// A rank's number in its communicator, 0 … ranks-1.
using Rank = std::int32_t;

// What ranks do together. n ranks; a part is one rank's share of the message.
enum class Collective : std::uint8_t {
  kAllReduce,       // everybody's inputs are reduced, everybody gets the result
  kBroadcast,       // everybody gets the root's input
  kReduce,          // the root gets the reduction of everybody's inputs
  kAllGather,       // everybody gets everybody's part
  kReduceScatter,   // everybody gets their part of the reduction
  kAllToAll,        // everybody has a part for everybody
  kGather,          // the root gets everybody's part
  kScatter,         // everybody gets their part of the root's input
  kSendReceive,     // rank r sends to r+1 and receives from r-1, cyclically
  kBarrier,         // nobody leaves before everybody has come
  kAllGatherV,      // as without V, but parts differ in size
  kReduceScatterV,  //
  kAllToAllV,       //
  kDispatch,        // every token goes from its rank to the ranks that have its experts, once to each
  kCombine,         // back: every token's rank gets the reduction of what the ranks of its experts made of it
};
inline constexpr int kCollectiveKinds = 15;

// Element types of collectives. weft/low_precision.h has the C++ types of the small floats.
enum class DataType : std::uint8_t {
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kFloat8E4M3,
  kFloat8E5M2,
};
inline constexpr int kDataTypes = 14;

// How contributions are combined. Integers wrap around. docs/decisions/0010-arithmetic.md has the details of floats.
enum class ReduceOp : std::uint8_t {
  kSum,
  kProd,
  kMin,  // and max: a NaN anywhere gives NaN; -0 is less than +0 (IEEE 754-2019 minimum and maximum)
  kMax,
  kAvg,        // floats: every contribution is multiplied by 1/n; integers: the sum divided by n, towards zero
  kPremulSum,  // every contribution is multiplied by its rank's own scalar
  kAnd,        // and, or, xor: of bits; integers only
  kOr,
  kXor,
};
inline constexpr int kReduceOps = 9;

// Bytes of one element.
constexpr std::int64_t size_of(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kFloat8E4M3:
    case DataType::kFloat8E5M2:
      return 1;
    case DataType::kInt16:
    case DataType::kUint16:
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64:
      return 8;
  }
  return 0;
}

// Does the enumeration have this value? Calls refuse others, which a cast or another language may bring.
constexpr bool is_known(Collective c) { return static_cast<int>(c) < kCollectiveKinds; }
constexpr bool is_known(DataType t) { return static_cast<int>(t) < kDataTypes; }
constexpr bool is_known(ReduceOp op) { return static_cast<int>(op) < kReduceOps; }

constexpr bool is_float(DataType type) { return type >= DataType::kFloat16; }

constexpr bool applies(DataType type, ReduceOp op) { return op < ReduceOp::kAnd || !is_float(type); }

// What a rank's contribution is multiplied by: floats take `real` (rounded to float for types of less than 64 bits),
// integers take `integer`, modulo their range.
struct Scalar {
  double real = 1;
  std::int64_t integer = 1;

  // The same value for both kinds; of a fraction integers take the whole part, of what exceeds 64 bits zero.
  static constexpr Scalar of(std::int64_t value) { return {static_cast<double>(value), value}; }
  static constexpr Scalar of(int value) { return of(std::int64_t{value}); }
  static constexpr Scalar of(double value) {
    constexpr double kLimit = 9223372036854775808.0;  // 2^63
    return {value, value >= -kLimit && value < kLimit ? static_cast<std::int64_t>(value) : 0};
  }

  bool operator==(const Scalar&) const = default;
};

}  // namespace weft
