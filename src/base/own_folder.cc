#include "base/own_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"

namespace weft {

std::string own_folder_path() { return fmt::format("/dev/shm/weft-{}", geteuid()); }

std::string fault_of_own(const struct stat& info, mode_t forbidden) {
  if (info.st_uid != geteuid()) return fmt::format("belongs to user {}", static_cast<unsigned>(info.st_uid));
  if ((info.st_mode & forbidden) != 0) return fmt::format("is open to other users (mode {:o})", info.st_mode & 07777);
  return "";
}

Result<std::string> own_folder() {
  const std::string folder = own_folder_path();
  struct stat info {};
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return failure(Code::kSystem, Blame::kProcess, "cannot make {}: {}", folder, std::strerror(errno));
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || !fault_of_own(info, kOthersRead).empty())
    return failure(Code::kSystem, Blame::kProcess, "{} is not a folder of this user alone", folder);
  return folder;
}

Result<std::optional<std::string>> read_own_file(const std::string& path, mode_t forbidden, std::size_t most) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd.open() && errno == ENOENT) return std::nullopt;
  if (!fd.open()) return bad_input("cannot read {}: {}", path, std::strerror(errno));
  struct stat info {};
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return bad_input("{} is not a regular file", path);
  if (const std::string fault = fault_of_own(info, forbidden); !fault.empty())
    return bad_input("{} {}; refused", path, fault);
  std::string text(most, '\0');
  const ssize_t got = read(fd.get(), text.data(), text.size());
  if (got < 0) return bad_input("cannot read {}: {}", path, std::strerror(errno));
  text.resize(static_cast<std::size_t>(got));
  return text;
}

Result<std::string> read_private_file(const std::string& what, const std::string& path) {
  const auto text = read_own_file(path, kOthersRead, 4096);
  if (!text) return bad_input("{}: {}", what, text.error().message);
  return text->value_or("");
}

}  // namespace weft
