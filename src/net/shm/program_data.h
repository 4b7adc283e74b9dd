#pragma once

#include <span>

#include "base/result.h"

namespace weft::net::shm {

// The writable data of the running program: its global and static variables (.data and .bss of the executable, not of
// libraries), by whole pages. Empty if that cannot be found out.
std::span<std::byte> program_data();

// Puts shared memory in the place of the program's data, with the same contents: from then on both addresses mean the
// same bytes, and a process that maps `shared` can load and store the program's variables.
// Requires: `data` is from program_data(); `shared` is a shared mapping of as many bytes, page-aligned; no other thread
// writes to the data meanwhile. A process forked later shares its variables with this one. Errors: kSystem.
Status share_program_data(std::span<std::byte> data, std::byte* shared);

}  // namespace weft::net::shm
