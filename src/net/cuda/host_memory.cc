#include "net/cuda/host_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace weft::net::cuda {
namespace {

// What a handle holds here: where another process finds the file.
struct Place {
  std::int64_t process, fd;
  std::uint64_t size;
};
static_assert(sizeof(Place) <= sizeof(MemoryHandle));

Result<void*> map(int fd, std::size_t size) {
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory != MAP_FAILED) return memory;
  return failure(Code::kNoResources, Blame::kOperation, "mmap of {} bytes: {}", size, std::strerror(errno));
}

}  // namespace

HostMemory::~HostMemory() {
  for (const auto& [memory, file] : files_) {
    munmap(const_cast<void*>(memory), file.size);
    close(file.fd);
  }
}

Result<void*> HostMemory::allocate(Bytes bytes) {
  const auto size = static_cast<std::size_t>(std::max<Bytes>(bytes, 1));
  const int fd = memfd_create("weft-device", MFD_CLOEXEC);
  if (fd < 0) return failure(Code::kNoResources, Blame::kOperation, "memfd_create: {}", std::strerror(errno));
  auto memory = ftruncate(fd, static_cast<off_t>(size)) == 0
                    ? map(fd, size)
                    : failure(Code::kNoResources, Blame::kOperation, "no memory for {} bytes", bytes);
  if (!memory) {
    close(fd);
    return memory;
  }
  const MutexLock guard(mutex_);
  files_[*memory] = {fd, size};
  return memory;
}

Status HostMemory::release(void* memory) {
  const MutexLock guard(mutex_);
  const auto found = files_.find(memory);
  if (found == files_.end()) return bad_input("memory is released that was not allocated");
  munmap(memory, found->second.size);
  close(found->second.fd);
  files_.erase(found);
  return {};
}

Result<SharedMemory> HostMemory::share(const void* memory) {
  const MutexLock guard(mutex_);
  const auto behind = files_.upper_bound(memory);
  const auto found = behind == files_.begin() ? files_.end() : std::prev(behind);
  SharedMemory shared;
  if (found != files_.end())
    shared.offset = static_cast<const std::byte*>(memory) - static_cast<const std::byte*>(found->first);
  if (found == files_.end() || shared.offset >= static_cast<Bytes>(found->second.size))
    return bad_input("memory is shared that was not allocated");
  const Place place{getpid(), found->second.fd, found->second.size};
  std::memcpy(shared.handle.data(), &place, sizeof place);
  return shared;
}

Result<std::shared_ptr<void>> HostMemory::open(const MemoryHandle& handle) {
  Place place;
  std::memcpy(&place, handle.data(), sizeof place);
  const int fd = ::open(fmt::format("/proc/{}/fd/{}", place.process, place.fd).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0)
    return failure(Code::kPeerDied, Blame::kCommunicator, "memory of process {} is gone: {}", place.process,
                   std::strerror(errno));
  const auto memory = map(fd, place.size);
  close(fd);
  if (!memory) return tl::make_unexpected(memory.error());
  return std::shared_ptr<void>(*memory, [size = place.size](void* m) { munmap(m, size); });
}

}  // namespace weft::net::cuda
