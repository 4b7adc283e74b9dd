#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace weft::doctor {

// The text between the marks, one part more than there are marks.
inline std::vector<std::string_view> cut(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// The number that is the whole text.
inline std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, problem] = read_number(text, value);
  return problem == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace weft::doctor
