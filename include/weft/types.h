#pragma once

#include <cstdint>

namespace weft {

// A rank's number in its communicator, 0 … ranks-1.
using Rank = std::int32_t;

enum class Collective : std::uint8_t { kAllReduce, kAllGather, kReduceScatter, kBroadcast };

// Element types of collectives.
enum class DataType : std::uint8_t { kInt32, kInt64, kFloat32, kFloat64 };

// How contributions are combined.
enum class ReduceOp : std::uint8_t { kSum };

constexpr std::int64_t size_of(DataType type) { return type == DataType::kInt32 || type == DataType::kFloat32 ? 4 : 8; }

}  // namespace weft
