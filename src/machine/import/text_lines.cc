#include "machine/import/text_lines.h"

#include <algorithm>
#include <cctype>

namespace weft::topology {
namespace {

bool blank(char c) { return static_cast<unsigned char>(c) <= ' '; }

// The length of a terminal's control sequence (ESC [ … letter) at the start of `text`, or 0.
std::size_t control_sequence(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  std::size_t end = 2;
  while (end < text.size() && !std::isalpha(static_cast<unsigned char>(text[end]))) ++end;
  return std::min(end + 1, text.size());
}

}  // namespace

std::vector<TextLine> lines_of(std::string_view text) {
  std::vector<TextLine> lines;
  std::int64_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back({++number, line});
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return lines;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  std::size_t at = 0;
  while (at < line.size()) {
    if (const std::size_t skip = control_sequence(line.substr(at))) {
      at += skip;
    } else if (blank(line[at])) {
      ++at;
    } else {
      std::size_t end = at;
      while (end < line.size() && !blank(line[end])) ++end;
      words.push_back(line.substr(at, end - at));
      at = end;
    }
  }
  return words;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace weft::topology
