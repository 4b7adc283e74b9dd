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

Result<json> parse_json(std::string_view file, std::string_view text, bool comments) {
  try {
    return json::parse(text, nullptr, true, comments);
  } catch (const json::parse_error& problem) {
    // The error names the byte behind the character that is wrong.
    const std::string_view before = text.substr(0, std::min(problem.byte > 0 ? problem.byte - 1 : 0, text.size()));
    const auto line = std::ranges::count(before, '\n') + 1;
    const std::size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    return bad_input("{}:{}:{}: no JSON: {}", file, line, before.size() - start + 1, reason_of(problem.what()));
  } catch (const json::exception& problem) {  // a number beyond all types
    return bad_input("{}: no JSON: {}", file, reason_of(problem.what()));
  }
}

}  // namespace weft
