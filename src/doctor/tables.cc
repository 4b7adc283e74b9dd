#include "doctor/tables.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace weft::doctor {
namespace {

std::optional<double> number(std::string_view word) {
  double value = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  return problem == std::errc() && end == word.data() + word.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

const std::vector<std::string_view>& table_words() {
  static const std::vector<std::string_view> kWords = {" float", " half",  " double", " bfloat16", " int8",
                                                       " int32", " int64", " uint",   " fp8",      " f8e"};
  return kWords;
}

bool has_wrong_elements(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < line.size() && words.size() < 16;) {
    const auto begin = line.find_first_not_of(" \t", at);
    if (begin == std::string_view::npos) break;
    at = std::min(line.find_first_of(" \t", begin), line.size());
    words.push_back(line.substr(begin, at - begin));
  }
  if (words.size() < 8 || !number(words[0]) || !number(words[1]) || number(words[2])) return false;
  // Behind the type: words of the operation, a root, then groups of four numbers.
  std::size_t first = 3;
  while (first < words.size() && !number(words[first])) ++first;
  std::size_t numbers = words.size() - first;
  if (numbers % 4 == 1) ++first, --numbers;
  if (numbers != 4 && numbers != 8) return false;
  for (std::size_t column = first + 3; column < words.size(); column += 4)
    if (const auto wrong = number(words[column]); wrong && *wrong >= 1) return true;
  return false;
}

}  // namespace weft::doctor
