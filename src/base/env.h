#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace weft::env {

// Every environment variable weft reads. `weft run --help` prints this table.
struct Variable {
  std::string_view name;
  std::string_view type;      // "number", "size", "text"
  std::string_view fallback;  // what holds when it is unset
  std::string_view meaning;
};
std::span<const Variable> table();

// The variables' values, read once and handed down; nothing else in weft looks at the environment.
struct Settings {
  std::optional<Rank> rank;  // WEFT_RANK
  std::optional<Rank> size;  // WEFT_SIZE
  std::string id;            // WEFT_ID
  std::int64_t timeout_ms = 30000;
  Bytes heap_bytes = Bytes{1} << 30;
  std::string algorithm, protocol;  // forced for every call that does not force its own
  std::int64_t channels = 0;
  bool reproducible = false;  // WEFT_REPRODUCIBLE
  std::string rates;          // WEFT_RATES
};

// Errors (bad input): names the variable and its value.
Result<Settings> read();

}  // namespace weft::env
