#pragma once

#include <string>

#include "base/result.h"

namespace weft {

// The folder in shared memory that belongs to this user alone, /dev/shm/weft-UID, mode 0700; made on first use.
// Processes of one user that share /dev/shm find each other's records, and the user's key, there.
// Errors: kSystem: it cannot be made, or belongs to another user, or is open to other users.
Result<std::string> own_folder();

// The whole text of a regular file that belongs to this user and is closed to all others, at most 4096 bytes; nothing
// if there is no such file. Neither follows a link nor waits for a FIFO. Errors (bad input): `what`, the path, and why
// it is refused; never the text.
Result<std::string> read_private_file(const std::string& what, const std::string& path);

}  // namespace weft
