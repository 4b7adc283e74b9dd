#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "weft/communicator.h"

// Checks of the arguments that many public calls have. Errors (bad input) name the argument and its value.
namespace weft::session {

inline constexpr std::size_t kAddressSpace = std::size_t{1} << 47;  // what one process can have at all
inline constexpr Rank kMostRanks = 1 << 20;                         // of one communicator

// `call`: begins the message.
Status check_type(std::string_view call, DataType type);
Status check_op(std::string_view call, ReduceOp op);
// 0 … kMostTimeout. Empty is right.
Status check_timeout(std::string_view call, std::optional<std::chrono::milliseconds> timeout);
Status check_ranks(std::string_view call, Rank ranks);
Status check_place(std::string_view call, Rank rank, Rank ranks);
// `count` elements at `data` are in the address space, and not at null. Requires: a known type.
Status check_elements(std::string_view call, const void* data, std::size_t count, DataType type);
// A function that throws nothing: an exception counts as true. Empty stays empty.
std::function<bool()> without_throwing(std::function<bool()> interrupted);

}  // namespace weft::session
