#include "net/shm/shm.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "base/text.h"

namespace weft::net::shm {
namespace {

using Clock = std::chrono::steady_clock;
using memory::RankState;
using memory::Segment;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(FileDescriptor&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string name_of(const std::string& id) { return "/weft-" + id; }

auto system_failure(std::string_view call, const std::string& name) {
  return failure(Code::kSystem, Blame::kCommunicator, "{} of {}: {}", call, name, std::strerror(errno));
}

// Touching a page that /dev/shm has no room for kills the process, so ask first. Counted: what the connections between
// all pairs touch when one strand is in full use.
Status check_room(int fd, const Options& options) {
  struct statvfs info {};
  if (fstatvfs(fd, &info) != 0) return {};
  const auto n = static_cast<std::uint64_t>(options.ranks);
  const std::uint64_t wanted = n * n * sizeof(memory::Connection) + n * memory::kScratchBytes + (1 << 20);
  const std::uint64_t free_bytes = info.f_bavail * info.f_frsize;
  if (free_bytes >= wanted) return {};
  return failure(Code::kNoResources, Blame::kProcess,
                 "/dev/shm has {} MiB free, {} ranks need {} MiB; enlarge it (docker: --shm-size)", free_bytes >> 20,
                 options.ranks, (wanted >> 20) + 1);
}

Result<FileDescriptor> create(const Options& options, std::size_t bytes) {
  const std::string name = name_of(options.id);
  FileDescriptor fd(shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (fd.get() < 0 && errno == EEXIST)
    return bad_input("job id '{}' is in use: shared memory {} exists; give every job its own WEFT_ID", options.id,
                     name);
  if (fd.get() < 0) return system_failure("shm_open", name);
  Status status = check_room(fd.get(), options);
  if (status && ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) status = system_failure("ftruncate", name);
  if (!status) {
    shm_unlink(name.c_str());
    return tl::make_unexpected(status.error());
  }
  return fd;
}

// Is this the file of that name, not one of a later job?
bool still_names(const std::string& id, int fd) {
  const FileDescriptor named(shm_open(name_of(id).c_str(), O_RDWR | O_CLOEXEC, 0600));
  struct stat own {
  }, other{};
  return named.get() >= 0 && fstat(fd, &own) == 0 && fstat(named.get(), &other) == 0 && own.st_ino == other.st_ino &&
         own.st_dev == other.st_dev;
}

// Whether all who have not come still may.
Status check_absent(const Options& options, Rank absent) {
  if (!options.has_ended || !options.has_ended(absent)) return {};
  return failure(Code::kPeerDied, Blame::kCommunicator, "rank {} has ended before it came", absent);
}

// Ranks that make a group of ranks that live come within microseconds; processes that start, within milliseconds.
class Wait {
 public:
  void pause() {
    if (Clock::now() - since_ < kSoon)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(200));
  }

 private:
  static constexpr std::chrono::microseconds kSoon{300};
  const Clock::time_point since_ = Clock::now();
};

// Waits for rank 0's file to exist at its full size.
Result<FileDescriptor> find(const Options& options, std::size_t bytes, Clock::time_point deadline) {
  const std::string name = name_of(options.id);
  for (Wait wait;;) {
    // Asked before the file is: a rank that came and then ended has left the file there, and rank 0 still waits for
    // this one. As long as it has not come, nobody's end can go unnoticed: rank 0 gives up for each who has not.
    Status absent;
    for (Rank r = 0; r < options.ranks && absent; ++r) absent = check_absent(options, r);
    FileDescriptor fd(shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0600));
    struct stat info {};
    if (fd.get() < 0 && errno != ENOENT) return system_failure("shm_open", name);
    if (fd.get() >= 0 && fstat(fd.get(), &info) == 0 && info.st_size > 0) {
      if (static_cast<std::size_t>(info.st_size) == bytes) return fd;
      return bad_input("rank {} disagrees with rank 0 on the number of ranks or on WEFT_HEAP", options.rank);
    }
    WEFT_CHECK(absent);
    if (Clock::now() >= deadline)
      return failure(Code::kTimeout, Blame::kCommunicator, "waited {} ms for rank 0 to start",
                     options.limits.timeout.count());
    wait.pause();
  }
}

Status meet(const Segment& segment, const Options& options, Clock::time_point deadline) {
  auto& header = segment.header();
  if (options.rank == 0) {
    header.magic = memory::kMagic;
    header.ranks = options.ranks;
    header.heap_bytes = options.heap_bytes;
    header.ready.store(1, std::memory_order_release);
  }
  memory::RankBlock& self = segment.block(options.rank);
  std::int32_t nobody = 0;
  if (!self.pid.compare_exchange_strong(nobody, getpid()))
    return bad_input("two processes claim rank {} of job '{}'", options.rank, options.id);
  self.state.store(RankState::kPresent, std::memory_order_release);
  header.attached.fetch_add(1, std::memory_order_acq_rel);
  Wait wait;
  while (header.attached.load(std::memory_order_acquire) < static_cast<std::uint32_t>(options.ranks)) {
    for (Rank r = 0; r < options.ranks; ++r)
      if (segment.block(r).state.load(std::memory_order_acquire) == RankState::kAbsent)
        WEFT_CHECK(check_absent(options, r));
    if (Clock::now() >= deadline) {
      std::string missing;
      for (Rank r = 0; r < options.ranks; ++r)
        if (segment.block(r).state.load(std::memory_order_acquire) == RankState::kAbsent)
          missing += fmt::format("{}{}", missing.empty() ? "" : ", ", r);
      return failure(Code::kTimeout, Blame::kCommunicator, "waited {} ms for rank {} to start",
                     options.limits.timeout.count(), missing);
    }
    wait.pause();
  }
  if (header.ready.load(std::memory_order_acquire) != 1 || header.magic != memory::kMagic)
    return bad_input("shared memory {} was made by another version of weft", name_of(options.id));
  return {};
}

}  // namespace

Mapping::~Mapping() {
  for (const int fd : process_fds_)
    if (fd >= 0) close(fd);
  munmap(segment.base(), bytes_);
}

void Mapping::watch(Rank self) {
  process_fds_.assign(static_cast<std::size_t>(segment.ranks()), -1);
  for (Rank r = 0; r < segment.ranks(); ++r)
    if (r != self)
      process_fds_[static_cast<std::size_t>(r)] =
          static_cast<int>(syscall(SYS_pidfd_open, segment.block(r).pid.load(), 0));
}

bool Mapping::has_ended(Rank peer) const {
  const memory::RankBlock& block = segment.block(peer);
  if (block.state.load(std::memory_order_acquire) == RankState::kLeft) return true;
  pollfd watched{process_fds_[static_cast<std::size_t>(peer)], POLLIN, 0};
  return watched.fd >= 0 ? poll(&watched, 1, 0) > 0 : kill(block.pid.load(), 0) != 0 && errno == ESRCH;
}

World::World(std::unique_ptr<Mapping> mapped, const Options& options)
    : mapping(std::move(mapped)),
      endpoint(mapping->segment, options.rank, false, "shm"),
      patience(
          mapping->segment, options.rank, options.limits, [m = mapping.get()](Rank peer) { return m->has_ended(peer); },
          options.names),
      heap(mapping->segment.heap(options.rank), mapping->segment.heap_bytes()) {}

World::~World() { mapping->segment.block(endpoint.rank()).state.store(RankState::kLeft, std::memory_order_release); }

Result<void*> World::allocate(Bytes bytes) {
  WEFT_TRY(void* const memory, heap.allocate(bytes));
  // Populates the pages now: a full /dev/shm is then an error here instead of a SIGBUS at the first store.
  const Bytes length = std::max<Bytes>(bytes, 1);
  if (madvise(memory, static_cast<std::size_t>(length), MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
    heap.deallocate(memory);
    return failure(Code::kNoResources, Blame::kOperation, "/dev/shm has no {} left", format_bytes(bytes));
  }
  return memory;
}

void World::deallocate(void* memory) {
  const Bytes size = heap.deallocate(memory);
  madvise(memory, static_cast<std::size_t>(size), MADV_REMOVE);  // gives the pages back; if not, they are reused
}

Result<std::unique_ptr<World>> attach(const Options& options) {
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks)
    return bad_input("rank {} of {} ranks", options.rank, options.ranks);
  if (options.id.empty() ||
      options.id.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") !=
          std::string::npos)
    return bad_input("job id '{}' is not made of letters, digits, '-' and '_'", options.id);

  const auto deadline = Clock::now() + options.limits.timeout;
  const std::size_t bytes = Segment::total_bytes(options.ranks, options.heap_bytes);
  Result<FileDescriptor> fd = options.rank == 0 ? create(options, bytes) : find(options, bytes, deadline);
  if (!fd) return tl::make_unexpected(fd.error());
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd->get(), 0);
  if (base == MAP_FAILED) {
    if (options.rank == 0) remove_name(options.id);
    return system_failure("mmap", name_of(options.id));
  }
  auto mapping =
      std::make_unique<Mapping>(Segment(static_cast<std::byte*>(base), options.ranks, options.heap_bytes), bytes);
  const std::size_t heaps = static_cast<std::size_t>(options.ranks) * static_cast<std::size_t>(options.heap_bytes);
  madvise(mapping->segment.heap(0), heaps, MADV_HUGEPAGE);  // where the kernel allows it for shared memory
  const Status met = meet(mapping->segment, options, deadline);
  // Without a rank that gives up, the job is never complete; rank 0 may have died before it could.
  const bool gave_up = !met && met.error().blame == Blame::kCommunicator;
  if (options.rank == 0 || (gave_up && still_names(options.id, fd->get()))) remove_name(options.id);
  if (!met) return tl::make_unexpected(met.error());
  mapping->watch(options.rank);
  return std::make_unique<World>(std::move(mapping), options);
}

void remove_name(const std::string& id) { shm_unlink(name_of(id).c_str()); }

}  // namespace weft::net::shm
