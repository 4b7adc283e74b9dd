#include "base/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace weft {
namespace {

using nlohmann::json;

// "[json.exception.parse_error.101] parse error at line 3, column 14: syntax error …" from the sentence on.
std::string_view reason_of(std::string_view message) {
  for (const std::string_view mark : {"syntax error", "attempting to parse an empty input"})
    if (const auto at = message.find(mark); at != std::string_view::npos) return message.substr(at);
  return message.substr(std::min(message.find("] ") + 2, message.size()));
}

}  // namespace

TextPlace place_of(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const std::size_t line = before.rfind('\n');
  return {1 + static_cast<std::size_t>(std::ranges::count(before, '\n')),
          before.size() - (line == std::string_view::npos ? 0 : line + 1) + 1};
}

Result<json> parse_json(std::string_view file, std::string_view text, bool comments) {
  try {
    return json::parse(text, nullptr, true, comments);
  } catch (const json::parse_error& problem) {
    // The error names the byte behind the character that is wrong.
    const TextPlace place = place_of(text, problem.byte > 0 ? problem.byte - 1 : 0);
    return bad_input("{}:{}:{}: no JSON: {}", file, place.line, place.column, reason_of(problem.what()));
  } catch (const json::exception& problem) {  // a number beyond all types
    return bad_input("{}: no JSON: {}", file, reason_of(problem.what()));
  }
}

}  // namespace weft
