#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace weft::topology {

// The text that a member of a JSON object is; empty where it is missing or no text.
inline std::string word(const nlohmann::json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

}  // namespace weft::topology
