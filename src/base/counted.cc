#include "base/counted.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

std::string plural(std::int64_t count, std::string_view word) {
  constexpr std::string_view kEs[] = {"s", "x", "ch", "sh"};
  if (count == 1 || word.empty()) return std::string(word);
  if (word.ends_with("leaf")) return fmt::format("{}ves", word.substr(0, word.size() - 1));
  if (std::ranges::any_of(kEs, [&](std::string_view end) { return word.ends_with(end); }))
    return fmt::format("{}es", word);
  const bool vowel = word.size() > 1 && std::string_view("aeiou").find(word[word.size() - 2]) != std::string_view::npos;
  if (word.ends_with('y') && !vowel) return fmt::format("{}ies", word.substr(0, word.size() - 1));
  return fmt::format("{}s", word);
}

std::string counted(std::int64_t count, std::string_view word) {
  return fmt::format("{} {}", count, plural(count, word));
}

}  // namespace weft
