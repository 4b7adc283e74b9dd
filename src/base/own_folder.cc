#include "base/own_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft {

Result<std::string> own_folder() {
  const std::string folder = fmt::format("/dev/shm/weft-{}", geteuid());
  struct stat info {};
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return failure(Code::kSystem, Blame::kProcess, "cannot make {}: {}", folder, std::strerror(errno));
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & 077) != 0)
    return failure(Code::kSystem, Blame::kProcess, "{} is not a folder of this user alone", folder);
  return folder;
}

Result<std::string> read_private_file(const std::string& what, const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return std::string();
  if (fd < 0) return bad_input("{}: cannot read {}: {}", what, path, std::strerror(errno));
  struct Closed {
    int fd;
    ~Closed() { close(fd); }
  } const closed{fd};
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return bad_input("{}: {} is not a regular file", what, path);
  if (info.st_uid != geteuid())
    return bad_input("{}: {} belongs to user {}; refused", what, path, static_cast<unsigned>(info.st_uid));
  if ((info.st_mode & 077) != 0)
    return bad_input("{}: {} is open to other users (mode {:o}); refused", what, path, info.st_mode & 07777);
  char text[4096];
  const ssize_t got = read(fd, text, sizeof text);
  if (got < 0) return bad_input("{}: cannot read {}: {}", what, path, std::strerror(errno));
  return std::string(text, static_cast<std::size_t>(got));
}

}  // namespace weft
