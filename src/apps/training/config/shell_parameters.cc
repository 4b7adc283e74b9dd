#include "apps/training/config/shell_parameters.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>

namespace weft::training {
namespace {

constexpr std::size_t kLongestValue = 1 << 14;  // that patterns are tried on

bool matches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

// The length of the part at `at` that the pattern matches, the longest or the shortest; npos: none.
std::size_t matched(const std::string& value, std::size_t at, const std::string& pattern, bool longest) {
  const std::size_t most = value.size() - at;
  for (std::size_t i = 0; i <= most; ++i) {
    const std::size_t length = longest ? most - i : i;
    if (matches(pattern, value.substr(at, length))) return length;
  }
  return std::string::npos;
}

std::string without_end(const std::string& value, const std::string& pattern, bool longest) {
  for (std::size_t i = 0; i <= value.size(); ++i) {
    const std::size_t at = longest ? i : value.size() - i;
    if (matches(pattern, value.substr(at))) return value.substr(0, at);
  }
  return value;
}

// "/x/y" with the kind before the pattern: '/' all, '#' at the start, '%' at the end, else the first.
std::string replaced(const std::string& value, std::string_view operation) {
  const char kind = operation.empty() ? '\0' : operation.front();
  const bool marked = kind == '/' || kind == '#' || kind == '%';
  if (marked) operation.remove_prefix(1);
  std::string pattern, with;
  bool behind = false;
  for (std::size_t i = 0; i < operation.size(); ++i) {
    if (operation[i] == '/' && !behind) {
      behind = true;
      continue;
    }
    if (operation[i] == '\\' && i + 1 < operation.size() && operation[i + 1] == '/') ++i;
    (behind ? with : pattern) += operation[i];
  }
  if (pattern.empty()) return value;
  if (kind == '%') {
    const std::string kept = without_end(value, pattern, true);
    return kept.size() == value.size() ? value : kept + with;
  }
  std::string out;
  for (std::size_t at = 0; at < value.size();) {
    const std::size_t length = matched(value, at, pattern, true);
    if (length == std::string::npos || length == 0) {
      if (kind == '#') return value;
      out += value[at++];
      continue;
    }
    out += with;
    at += length;
    if (kind != '/') return out + value.substr(at);
  }
  return out;
}

std::string cased(std::string value, bool upper, bool all) {
  const std::size_t end = all ? value.size() : std::min<std::size_t>(1, value.size());
  for (std::size_t i = 0; i < end; ++i) {
    const auto c = static_cast<unsigned char>(value[i]);
    value[i] = static_cast<char>(upper ? std::toupper(c) : std::tolower(c));
  }
  return value;
}

}  // namespace

std::optional<std::string> changed_value(const std::string& value, std::string_view operation) {
  if (operation.empty() || value.size() > kLongestValue) return std::nullopt;
  const char op = operation.front();
  const bool twice = operation.size() > 1 && operation[1] == op;
  if (op == '/') return replaced(value, operation.substr(1));
  const std::string pattern(operation.substr(twice ? 2 : 1));
  if (op == '#') {
    const std::size_t length = matched(value, 0, pattern, twice);
    return length == std::string::npos ? value : value.substr(length);
  }
  if (op == '%') return without_end(value, pattern, twice);
  if ((op == '^' || op == ',') && pattern.empty()) return cased(value, op == '^', twice);
  return std::nullopt;
}

std::string part_of(const std::string& value, std::int64_t offset, std::optional<std::int64_t> length) {
  const std::int64_t size = std::ssize(value);
  if (offset < 0) offset += size;
  if (offset < 0 || offset > size) return "";
  std::int64_t end = !length ? size : *length < 0 ? size + *length : offset + std::min(*length, size);
  end = std::clamp(end, offset, size);
  return value.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(end - offset));
}

}  // namespace weft::training
