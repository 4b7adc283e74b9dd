#include "move/transfer/segment.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include "base/text_file.h"

namespace weft::transfer {
namespace {

// When the process was started, in ticks since the machine was; 0: there is no such process.
std::uint32_t start_of(std::int32_t pid) {
  char path[64], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  if (!fd.open()) return 0;
  const ssize_t n = read(fd.get(), text, sizeof text - 1);
  if (n <= 0) return 0;
  text[n] = 0;
  const char* at = std::strrchr(text, ')');  // the name may hold anything; field 22 is the 20th behind it
  for (int field = 0; at != nullptr && field < 20; ++field) at = std::strchr(at + 1, ' ');
  return at == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoull(at, nullptr, 10)) | 1U << 31;
}

std::uint64_t process_of(std::int32_t pid, std::uint32_t start) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(pid)) << 32 | start;
}

void copy_into(std::byte* ring, std::uint64_t at, const void* from, std::size_t bytes) {
  const std::size_t first = std::min<std::size_t>(bytes, kRing - at % kRing);
  std::memcpy(ring + at % kRing, from, first);
  std::memcpy(ring, static_cast<const char*>(from) + first, bytes - first);
}
void copy_from(const std::byte* ring, std::uint64_t at, void* to, std::size_t bytes) {
  const std::size_t first = std::min<std::size_t>(bytes, kRing - at % kRing);
  std::memcpy(to, ring + at % kRing, first);
  std::memcpy(static_cast<char*>(to) + first, ring, bytes - first);
}

struct Lengths {
  std::uint32_t from = 0, bytes = 0;
};

}  // namespace

std::uint64_t this_process() { return process_of(getpid(), start_of(getpid())); }

bool process_ended(std::uint64_t process) {
  const UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid_of(process), 0)));
  if (!fd.open()) return errno == ESRCH;
  if (start_of(pid_of(process)) != static_cast<std::uint32_t>(process)) return true;
  pollfd ended{.fd = fd.get(), .events = POLLIN, .revents = 0};
  return poll(&ended, 1, 0) > 0;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

namespace {

// The number behind `key` in a file, or the file's first; nothing: it is not there.
std::optional<Bytes> number_in(const char* file, std::string_view key = {}) {
  std::ifstream in(file);
  std::string word;
  while (!key.empty() && in >> word && word != key) {
  }
  Bytes value = 0;
  return in >> value ? std::optional(value) : std::nullopt;
}

// Bytes of memory that this process may still take, about; of the machine and its control group.
Bytes memory_left() {
  Bytes left = std::numeric_limits<Bytes>::max();
  if (const auto kib = number_in("/proc/meminfo", "MemAvailable:")) left = *kib * 1024;
  const auto most = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
  if (!most || !used) return left;
  Bytes cache = 0;  // of files; it makes place
  for (const char* const key : {"inactive_file", "active_file"})
    cache += number_in("/sys/fs/cgroup/memory.stat", key).value_or(0);
  left = std::min(left, *most - *used + cache);
  return std::max<Bytes>(left, 0);
}

}  // namespace

Result<SharedMemory> make_shared_memory(Bytes bytes, bool touched) {
  // Reserving it page by page would take all there is first.
  if (const Bytes left = touched ? memory_left() : bytes; bytes > left)
    return failure(Code::kNoResources, Blame::kProcess, "{} bytes of shared memory are more than the {} that are free",
                   bytes, left);
  SharedMemory made;
  made.fd = UniqueFd(memfd_create("weft-transfer", MFD_CLOEXEC));
  if (!made.fd.open()) return failure(Code::kNoResources, Blame::kProcess, "memfd_create: {}", std::strerror(errno));
  // Reserving reports here, rather than by a signal later, that there is no room.
  const int failed =
      touched ? posix_fallocate(made.fd.get(), 0, bytes) : (ftruncate(made.fd.get(), bytes) == 0 ? 0 : errno);
  if (failed != 0)
    return failure(Code::kNoResources, Blame::kProcess, "no room for {} bytes of shared memory: {}", bytes,
                   std::strerror(failed));
  void* const data = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                          MAP_SHARED | (touched ? MAP_POPULATE : 0), made.fd.get(), 0);
  if (data == MAP_FAILED)
    return failure(Code::kNoResources, Blame::kProcess, "mmap of {} bytes: {}", bytes, std::strerror(errno));
  made.mapping = Mapping(static_cast<std::byte*>(data), static_cast<std::size_t>(bytes));
  return made;
}

Result<Mapping> map_of_process(std::int32_t pid, int fd, Bytes bytes, bool touched) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  const UniqueFd other(::open(path, O_RDWR | O_CLOEXEC));
  struct stat known {};
  if (!other.open() || fstat(other.get(), &known) != 0)
    return failure(Code::kUnsupported, Blame::kOperation, "its memory cannot be opened: {}", std::strerror(errno));
  if (!S_ISREG(known.st_mode) || known.st_size != bytes)
    return failure(Code::kUnsupported, Blame::kOperation, "its memory is not there");
  void* const data = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                          MAP_SHARED | (touched ? MAP_POPULATE : 0), other.get(), 0);
  if (data == MAP_FAILED)
    return failure(Code::kUnsupported, Blame::kOperation, "its memory cannot be mapped: {}", std::strerror(errno));
  return Mapping(static_cast<std::byte*>(data), static_cast<std::size_t>(bytes));
}

bool push(Slot& slot, std::string_view from, std::string_view bytes) {
  const Lengths lengths{static_cast<std::uint32_t>(from.size()), static_cast<std::uint32_t>(bytes.size())};
  const std::uint64_t tail = slot.tail.load(std::memory_order_relaxed);
  const std::uint64_t all = sizeof lengths + from.size() + bytes.size();
  if (tail - slot.head.load(std::memory_order_acquire) + all > kRing) return false;
  copy_into(slot.ring, tail, &lengths, sizeof lengths);
  copy_into(slot.ring, tail + sizeof lengths, from.data(), from.size());
  copy_into(slot.ring, tail + sizeof lengths + from.size(), bytes.data(), bytes.size());
  slot.tail.store(tail + all, std::memory_order_release);
  return true;
}

bool pop(Slot& slot, std::string& from, std::string& bytes) {
  const std::uint64_t head = slot.head.load(std::memory_order_relaxed);
  const std::uint64_t tail = slot.tail.load(std::memory_order_acquire);
  if (head == tail) return false;
  Lengths lengths;
  const std::uint64_t here = tail - head;
  if (here >= sizeof lengths && here <= kRing) copy_from(slot.ring, head, &lengths, sizeof lengths);
  const std::uint64_t all = sizeof lengths + std::uint64_t{lengths.from} + lengths.bytes;
  if (here < sizeof lengths || here > kRing || all > here) {
    slot.head.store(tail, std::memory_order_release);
    return false;
  }
  from.resize(lengths.from);
  bytes.resize(lengths.bytes);
  copy_from(slot.ring, head + sizeof lengths, from.data(), from.size());
  copy_from(slot.ring, head + sizeof lengths + from.size(), bytes.data(), bytes.size());
  slot.head.store(head + all, std::memory_order_release);
  return true;
}

}  // namespace weft::transfer
