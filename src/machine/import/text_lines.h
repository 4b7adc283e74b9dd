#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::topology {

// One line of a text with its number; control sequences of terminals count as blanks.
struct TextLine {
  std::int64_t number = 0;  // from 1
  std::string_view text;
};

// Splits at line ends ("\n" or "\r\n"). The lines point into `text`.
std::vector<TextLine> lines_of(std::string_view text);

// The words between blanks, tabs and control sequences.
std::vector<std::string_view> words_of(std::string_view line);

// The text without blanks at both ends.
std::string_view trimmed(std::string_view text);

// The text with ASCII's capitals as small letters.
std::string lower(std::string_view text);

}  // namespace weft::topology
