#include "tests/small_shared_memory.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>

namespace weft::tests {
namespace {

constexpr const char* kFolder = "/dev/shm";

// Mounts of this process are seen by no other from now on.
bool alone() {
  static const bool is = unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  return is;
}

}  // namespace

SmallSharedMemory::SmallSharedMemory(std::int64_t bytes)
    : mounted_(alone() && mount("tmpfs", kFolder, "tmpfs", 0, fmt::format("size={}", bytes).c_str()) == 0) {}

SmallSharedMemory::~SmallSharedMemory() {
  if (mounted_) umount2(kFolder, MNT_DETACH);
}

}  // namespace weft::tests
