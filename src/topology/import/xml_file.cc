#include "topology/import/xml_file.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <system_error>

namespace weft::topology {
namespace {

constexpr std::uintmax_t kLargest = std::uintmax_t{64} << 20;  // bytes; a dump of a node has about 20 KB

}  // namespace

Result<std::string> read_text_file(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return bad_input("{}: no such file", file.string());
  if (!std::filesystem::is_regular_file(file, error)) return bad_input("{}: not a regular file", file.string());
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (!error && size > kLargest)
    return bad_input("{}: {} bytes are more than the {} MiB read at most", file.string(), size, kLargest >> 20);
  std::ifstream stream(file, std::ios::binary);
  std::string text(static_cast<std::size_t>(error ? 0 : size), '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (error || !stream) return bad_input("{}: cannot be read", file.string());
  return text;
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

}  // namespace weft::topology
