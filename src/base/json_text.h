#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/result.h"

namespace weft {

// A byte has this place in a text; both numbers count from 1.
struct TextPlace {
  std::size_t line = 1, column = 1;
};
TextPlace place_of(std::string_view text, std::size_t at);

// The JSON of a file. `comments`: // and /* */ are passed over. Errors (bad input): "FILE:LINE:COLUMN: no JSON: …",
// what stands there and what was expected.
Result<nlohmann::json> parse_json(std::string_view file, std::string_view text, bool comments = false);

}  // namespace weft
