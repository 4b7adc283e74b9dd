#include "base/xml_file.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace weft {

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : shown(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Result<XmlFile> XmlFile::parse(std::string_view name, std::string_view text) {
  XmlFile file;
  file.name_ = name;
  file.line_starts_.push_back(0);
  for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1))
    file.line_starts_.push_back(static_cast<std::ptrdiff_t>(at) + 1);
  // UTF-8 is forced so that offsets count the bytes of `text`.
  const pugi::xml_parse_result result =
      file.document_.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!result) return bad_input("{}:{}: not XML: {}", name, file.line_of(result.offset), result.description());
  return file;
}

std::int64_t XmlFile::line_of(std::ptrdiff_t offset) const {
  return std::ranges::upper_bound(line_starts_, std::max<std::ptrdiff_t>(offset, 0)) - line_starts_.begin();
}

std::string XmlFile::where(pugi::xml_node node) const {
  return fmt::format("{}:{}", name_, line_of(node.offset_debug()));
}

Result<std::int64_t> XmlFile::integer(pugi::xml_node node, const char* attribute, std::int64_t low, std::int64_t high,
                                      std::int64_t fallback) const {
  const std::string_view text = node.attribute(attribute).value();
  if (text.empty()) return fallback;
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size())
    return bad_input("{}: {} '{}' is not a whole number", where(node), attribute, text);
  if (value < low || value > high)
    return bad_input("{}: {} {} is outside {} … {}", where(node), attribute, value, low, high);
  return value;
}

}  // namespace weft
