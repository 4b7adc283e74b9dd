#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weft {

// Writes `text` to `file`. A regular file is replaced in one step: readers see the old text or the new one, and a
// draft beside it is created exclusively under a random name. A device, FIFO or symbolic link stays what it is: the
// text is written into it, or into the file that the link points to. Errors (kSystem): names the file and the reason;
// nothing is left behind.
Status write_file(const std::string& file, std::string_view text);

// True if `file` can be created or written, by the rules of write_file; commands ask before work that takes long.
// Errors: as write_file.
Status check_writable(const std::string& file);

}  // namespace weft
