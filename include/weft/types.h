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
};

// Element types of collectives.
enum class DataType : std::uint8_t { kInt32, kInt64, kFloat32, kFloat64 };

// How contributions are combined.
enum class ReduceOp : std::uint8_t { kSum };

constexpr std::int64_t size_of(DataType type) { return type == DataType::kInt32 || type == DataType::kFloat32 ? 4 : 8; }

}  // namespace weft
