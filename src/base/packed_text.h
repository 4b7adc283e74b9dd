#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weft {

// The text of a file's bytes: gzip, xz, zstd and bzip2 are unpacked, also several streams one behind the other; UTF-16
// with or without a byte order mark becomes UTF-8; a byte order mark of UTF-8 is left out. Other bytes stay as they
// are. Errors (bad input): a damaged or cut stream; more than `largest` bytes unpacked; an archive (tar, zip).
Result<std::string> unpacked(std::string_view file, std::string bytes, std::uintmax_t largest);

}  // namespace weft
