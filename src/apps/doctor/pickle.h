#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace weft::doctor {

// Does the text look like a pickle of protocol 2 or later?
bool is_pickle(std::string_view text);

// The value of a pickle of plain data, as PyTorch's flight recorder writes it: dicts, lists, tuples, texts, bytes,
// numbers, booleans, None. Tuples become arrays, keys texts, infinite numbers null. Nothing is executed: what names a
// class or a function (GLOBAL, REDUCE, BUILD, persistent ids) is refused. Time and memory are linear in the pickle's
// size; what is shared within it is copied, at most kMostCopies values more than it has bytes.
// Errors (bad input): one sentence with the offset in bytes.
inline constexpr std::size_t kMostCopies = 1'000'000;
Result<nlohmann::json> read_pickle(std::string_view pickle);

}  // namespace weft::doctor
