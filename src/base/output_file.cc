#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/text.h"

namespace weft {
namespace {

tl::unexpected<Error> cannot_write(const std::string& file, int error) {
  return failure(Code::kSystem, Blame::kInput, "cannot write {}: {}", shown(file), std::strerror(error));
}

// 0, or errno.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

Status write_into(const std::string& file, std::string_view text) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (fd < 0) return cannot_write(file, errno);
  const int wrong = write_all(fd, text);
  if (::close(fd) != 0 && wrong == 0) return cannot_write(file, errno);
  if (wrong != 0) return cannot_write(file, wrong);
  return {};
}

// The permissions that the replaced file had, else those that the process gives new files.
mode_t mode_for(const struct stat* old) {
  if (old != nullptr) return old->st_mode & 07777;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

}  // namespace

Status write_file(const std::string& file, std::string_view text) {
  struct stat old {};
  const bool exists = ::lstat(file.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) return write_into(file, text);
  std::string draft = file + ".XXXXXX";
  const int fd = ::mkostemp(draft.data(), O_CLOEXEC);  // O_EXCL: never follows a planted link
  if (fd < 0) return cannot_write(file, errno);
  int wrong = write_all(fd, text);
  if (wrong == 0 && ::fchmod(fd, mode_for(exists ? &old : nullptr)) != 0) wrong = errno;
  if (::close(fd) != 0 && wrong == 0) wrong = errno;
  if (wrong == 0 && std::rename(draft.c_str(), file.c_str()) != 0) wrong = errno;
  if (wrong == 0) return {};
  ::unlink(draft.c_str());
  return cannot_write(file, wrong);
}

Status check_writable(const std::string& file) {
  struct stat old {};
  if (::lstat(file.c_str(), &old) == 0 && !S_ISREG(old.st_mode)) {
    if (S_ISDIR(old.st_mode)) return cannot_write(file, EISDIR);
    return ::access(file.c_str(), W_OK) == 0 ? Status() : cannot_write(file, errno);
  }
  const std::size_t slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : file.substr(0, slash + 1);
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? Status() : cannot_write(file, errno);
}

}  // namespace weft
