#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace weft {

constexpr std::uintmax_t kLargestTextFile = std::uintmax_t{64} << 20;  // bytes; a dump of a node has about 20 KB

// True for anything that the path leads to.
bool file_exists(const std::filesystem::path& file);

// Reads a whole regular file of at most `largest` bytes as it is. Errors: those of read_text_file.
Result<std::string> read_file(const std::filesystem::path& file, std::uintmax_t largest = kLargestTextFile);

// Reads a whole regular file of at most `largest` bytes, unpacked and as UTF-8: see packed_text.h. Devices, FIFOs and
// sockets are refused: they have no end, or block.
// Errors (bad input): names the file and what is wrong with it.
Result<std::string> read_text_file(const std::filesystem::path& file, std::uintmax_t largest = kLargestTextFile);

}  // namespace weft
