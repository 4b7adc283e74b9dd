#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace weft {

// Reads a whole file of at most 64 MiB.
// Errors (bad input): names the file and what is wrong with it.
Result<std::string> read_text_file(const std::filesystem::path& file);

}  // namespace weft
