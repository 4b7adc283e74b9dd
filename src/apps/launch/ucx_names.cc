#include "apps/launch/ucx_names.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/own_folder.h"

namespace weft::launch {
namespace {

constexpr std::string_view kPrefix = "ucx-";

}  // namespace

UcxNames::UcxNames() {
  const auto folder = own_folder();
  if (!folder) return;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(*folder, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const auto pid = static_cast<pid_t>(std::strtol(name.c_str() + kPrefix.size(), nullptr, 10));
    if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH)) std::filesystem::remove_all(entry, ignored);
  }
  path_ = fmt::format("{}/{}{}", *folder, kPrefix, getpid());
  if (!std::filesystem::create_directory(path_, ignored)) path_.clear();
}

UcxNames::~UcxNames() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

void UcxNames::apply() const {
  if (!path_.empty()) setenv("UCX_POSIX_DIR", path_.c_str(), 0);
}

}  // namespace weft::launch
