#include "base/text_file.h"

#include <fstream>
#include <system_error>

namespace weft {
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

}  // namespace weft
