#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "base/result.h"

namespace weft {

// The folder in shared memory that belongs to this user alone, /dev/shm/weft-UID, mode 0700; made on first use.
// Processes of one user that share /dev/shm find each other's records, and the user's key, there.
// Errors: kSystem: it cannot be made, or belongs to another user, or is open to other users.
Result<std::string> own_folder();
std::string own_folder_path();  // for messages; it need not be there

// Permissions that others must not have to what is this user's own.
inline constexpr mode_t kOthersRead = 077;   // of secrets: neither reading nor writing
inline constexpr mode_t kOthersWrite = 022;  // of what is only trusted: no writing

// Does it belong to this user, without these permissions for others? Empty: it does; else what is wrong, e.g. "belongs
// to user 1000".
std::string fault_of_own(const struct stat& info, mode_t forbidden);

// The text of a regular file of this user's; nothing if there is no such file. Files of more than `most` bytes are cut
// there. Neither follows a link nor waits for a FIFO. Errors (bad input): the path, and why it is refused; never the
// text.
Result<std::optional<std::string>> read_own_file(const std::string& path, mode_t forbidden, std::size_t most);

// The same of a secret of at most 4096 bytes, or of a file that names a place to meet; empty if there is no such file.
// Errors (bad input): begin with `what`.
Result<std::string> read_private_file(const std::string& what, const std::string& path);

}  // namespace weft
