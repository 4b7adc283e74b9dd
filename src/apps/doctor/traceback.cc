#include "apps/doctor/traceback.h"

#include <cctype>

namespace weft::doctor {
namespace {

bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Drops "ERROR 07-03 20:47:11 [core.py:517] ", and its older form "ERROR 03-20 02:45:15 engine.py:244] ".
std::string_view behind_logger(std::string_view line) {
  constexpr std::size_t kLongestHead = 96;
  for (const std::string_view level : {"ERROR ", "WARNING ", "CRITICAL "}) {
    if (!line.starts_with(level)) continue;
    const std::size_t end = line.substr(0, kLongestHead).find(']');
    const std::size_t date = level.size();
    if (end == std::string_view::npos || date + 14 > end || !digit(line[date]) || line[date + 2] != '-') return line;
    line.remove_prefix(end + 1);
    if (line.starts_with(' ')) line.remove_prefix(1);
    return line;
  }
  return line;
}

// "RuntimeError: …", "torch.OutOfMemoryError: …", "AssertionError" alone.
bool names_exception(std::string_view line) {
  std::size_t end = 0, word = 0;
  for (; end < line.size(); ++end) {
    const char c = line[end];
    if (c == '.')
      word = end + 1;
    else if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_')
      break;
  }
  // A class of a module may begin small: "nixl._bindings.nixlBackendError".
  if (word >= end || (word == 0 && std::isupper(static_cast<unsigned char>(line[word])) == 0)) return false;
  if (end < line.size() && line[end] != ':') return false;
  const std::string_view name = line.substr(word, end - word);
  for (const std::string_view tail : {"Error", "Exception", "Exit", "Interrupt", "Warning", "Timeout"})
    if (name.ends_with(tail)) return true;
  return false;
}

}  // namespace

TracebackPart traceback_part(std::string_view line) {
  const std::string_view rest = behind_logger(line);
  if (rest.find("Traceback (most recent call last)") != std::string_view::npos) return TracebackPart::kBegin;
  if (names_exception(rest)) return TracebackPart::kException;
  const bool logged = rest.size() < line.size();
  const bool frame = rest.starts_with("  File \"") || rest.starts_with("    ");
  return frame && (logged || rest.starts_with("  File \"") || rest.find("raise ") != std::string_view::npos)
             ? TracebackPart::kFrame
             : TracebackPart::kNone;
}

}  // namespace weft::doctor
