#include "base/text_file.h"

#include <fstream>
#include <system_error>

#include "base/packed_text.h"
#include "base/text.h"

namespace weft {

bool file_exists(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

Result<std::string> read_file(const std::filesystem::path& file, std::uintmax_t largest) {
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    return bad_input("{}: {}", shown(file.string()), error ? error.message() : "no such file");
  if (!std::filesystem::is_regular_file(file, error)) return bad_input("{}: not a regular file", shown(file.string()));
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (!error && size > largest)
    return bad_input("{}: {} bytes are more than the {} MiB read at most", shown(file.string()), size, largest >> 20);
  std::ifstream stream(file, std::ios::binary);
  std::string text(static_cast<std::size_t>(error ? 0 : size), '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (error || !stream) return bad_input("{}: cannot be read", shown(file.string()));
  return text;
}

Result<std::string> read_text_file(const std::filesystem::path& file, std::uintmax_t largest) {
  WEFT_TRY(std::string text, read_file(file, largest));
  return unpacked(file.string(), std::move(text), largest);
}

}  // namespace weft
