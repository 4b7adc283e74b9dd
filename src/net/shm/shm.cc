#include "net/shm/shm.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <thread>

#include "base/text.h"
#include "base/unique_fd.h"
#include "exec/fabric/real.h"
#include "net/memory/group.h"
#include "weft/interrupt.h"

namespace weft::net::shm {

static_assert(fabric::GrowsMemory<World> && fabric::LoadsPeers<World>);
namespace {

using Clock = std::chrono::steady_clock;
using memory::RankState;
using memory::Segment;

std::string name_of(const std::string& id) { return "/weft-" + id; }

auto system_failure(std::string_view call, const std::string& name) {
  return failure(Code::kSystem, Blame::kCommunicator, "{} of {}: {}", call, name, std::strerror(errno));
}

Status check_room(int fd, Rank ranks) {
  struct statvfs info {};
  if (fstatvfs(fd, &info) != 0) return {};
  return check_free(info.f_bavail * info.f_frsize, ranks);
}

// Address space for the communicators of one family, so that the first need not know how many there will be: some that
// each use all of WEFT_HEAP, and some thousand pairs. None where the system limits it, for the first one's sake.
struct Sizes {
  Bytes heap, room;

  static Sizes of(const Options& options) {
    constexpr Bytes kMost = Bytes{1} << 40;  // of all ranks
    constexpr Bytes kHeaps = 16, kRoom = Bytes{128} << 30;
    rlimit space{}, file{};
    getrlimit(RLIMIT_AS, &space);
    getrlimit(RLIMIT_FSIZE, &file);
    const Bytes heap = memory::Heap::size_for(options.heap_bytes);
    if (space.rlim_cur != RLIM_INFINITY || file.rlim_cur != RLIM_INFINITY) return {heap, 0};
    const Bytes most = memory::Heap::size_for(kMost / options.ranks);
    return {heap * std::clamp<Bytes>(most / heap, 1, kHeaps), std::min(most, kRoom)};
  }
};

// Is this the file of that name, not one of a later job?
bool still_names(const std::string& id, int fd) {
  const UniqueFd named(shm_open(name_of(id).c_str(), O_RDWR | O_CLOEXEC, 0600));
  struct stat own {
  }, other{};
  return named.get() >= 0 && fstat(fd, &own) == 0 && fstat(named.get(), &other) == 0 && own.st_ino == other.st_ino &&
         own.st_dev == other.st_dev;
}

// The lock says that the name is in use, until the descriptor is closed or its process has ended: see sweep_names().
Result<UniqueFd> create(const Options& options, std::size_t bytes) {
  const std::string name = name_of(options.id);
  UniqueFd fd(shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (fd.get() < 0 && errno == EEXIST)
    return bad_input("job id '{}' is in use: shared memory {} exists; give every job its own WEFT_ID", options.id,
                     name);
  if (fd.get() < 0) return system_failure("shm_open", name);
  while (flock(fd.get(), LOCK_SH) != 0 && errno == EINTR) {
  }
  if (!still_names(options.id, fd.get())) return create(options, bytes);  // somebody swept between the two lines
  Status status = check_room(fd.get(), options.ranks);
  if (status && ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) status = system_failure("ftruncate", name);
  if (!status) {
    shm_unlink(name.c_str());
    return tl::make_unexpected(status.error());
  }
  return fd;
}

std::optional<Error> lost(const Options& options, Rank r) {
  return options.lost && r != options.rank ? options.lost(r) : std::nullopt;
}

tl::unexpected<Error> interrupted(const Options& options) {
  return failure_of(options.rank, Code::kAborted, Blame::kOperation, "rank {}: interrupted while the ranks met",
                    options.rank);
}

// Ranks that make a group of ranks that live come within microseconds; processes that start, within milliseconds. Many
// that share a core look more seldom: together they would take it from those that have yet to come.
class Wait {
 public:
  explicit Wait(Rank ranks)
      : sleep_(kBriefly * std::clamp(ranks / static_cast<Rank>(std::max(1u, std::thread::hardware_concurrency())), 1,
                                     kMostSharing)) {}

  void pause() {
    if (Clock::now() - since_ < kSoon)
      sched_yield();
    else
      std::this_thread::sleep_for(sleep_);
  }

 private:
  static constexpr std::chrono::microseconds kSoon{300}, kBriefly{200};
  static constexpr Rank kMostSharing = 32;
  const std::chrono::microseconds sleep_;
  const Clock::time_point since_ = Clock::now();
};

// Shared memory that another user made, or may write, is not this job's: its owner could point ranks anywhere.
Status check_owner(const std::string& name, const struct stat& info) {
  if (info.st_uid != geteuid())
    return failure(Code::kSystem, Blame::kCommunicator,
                   "shared memory {} belongs to user {}, not to this job's; refused", name, info.st_uid);
  if (!S_ISREG(info.st_mode) || (info.st_mode & 077) != 0)
    return failure(Code::kSystem, Blame::kCommunicator, "shared memory {} is open to other users (mode {:o}); refused",
                   name, info.st_mode & 07777);
  return {};
}

// Waits for rank 0's file to exist at its full size.
Result<UniqueFd> find(const Options& options, std::size_t bytes, Clock::time_point deadline) {
  const std::string name = name_of(options.id);
  for (Wait wait(options.ranks);;) {
    // Asked before the file is: as long as this rank has not come the group is not complete, and nobody has gone on.
    std::optional<Error> gone;
    for (Rank r = 0; r < options.ranks && !gone; ++r) gone = lost(options, r);
    UniqueFd fd(shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0600));
    struct stat info {};
    if (fd.get() < 0 && errno != ENOENT) return system_failure("shm_open", name);
    if (fd.get() >= 0 && fstat(fd.get(), &info) == 0) WEFT_CHECK(check_owner(name, info));
    if (fd.get() >= 0 && info.st_size > 0) {
      if (static_cast<std::size_t>(info.st_size) == bytes) return fd;
      return bad_input("rank {} disagrees with rank 0 on the number of ranks or on WEFT_HEAP", options.rank);
    }
    if (gone) return tl::make_unexpected(std::move(*gone));
    // Rank 0 makes no file where there is too little room; it is not alone to say why.
    if (struct statvfs room{}; statvfs("/dev/shm", &room) == 0)
      WEFT_CHECK(check_free(room.f_bavail * room.f_frsize, options.ranks));
    if (Clock::now() >= deadline)
      return failure_of(0, Code::kTimeout, Blame::kCommunicator, "waited {} ms for rank 0 to start",
                        options.limits.timeout.count());
    if (Interruptible::asked()) return interrupted(options);
    wait.pause();
  }
}

// Which processes' numbers this process sees.
std::uint64_t own_processes() {
  struct stat info {};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

// Who cannot name a peer's process would take a living one for dead, or signal another.
Status check_processes(const Segment& segment, Rank self) {
  for (Rank r = 0; r < segment.ranks(); ++r)
    if (segment.block(r).processes.load() != segment.block(self).processes.load())
      return bad_input(
          "ranks {} and {} share /dev/shm but not a PID namespace, so they cannot watch each other; share it (docker: "
          "--pid), or use transport tcp",
          std::min(self, r), std::max(self, r));
  return {};
}

constexpr int kGivenUpShift = 32;  // in Header::attached

Rank given_up_for(const memory::Header& header) {
  return static_cast<Rank>(header.attached.load(std::memory_order_acquire) >> kGivenUpShift) - 1;
}
bool complete(const Segment& segment) {
  return segment.header().attached.load(std::memory_order_acquire) == static_cast<std::uint64_t>(segment.ranks());
}

// Gives the segment up for all ranks, because this one is not coming. False: all have come.
bool give_up(const Segment& segment, Rank absent) {
  memory::Header& header = segment.header();
  std::uint64_t now = header.attached.load(std::memory_order_acquire);
  while (now != static_cast<std::uint64_t>(segment.ranks())) {
    if (now >> kGivenUpShift != 0) return true;
    const std::uint64_t given_up = now | (static_cast<std::uint64_t>(absent) + 1) << kGivenUpShift;
    if (header.attached.compare_exchange_weak(now, given_up, std::memory_order_acq_rel)) return true;
  }
  return false;
}

bool is_absent(const Segment& segment, Rank r) {
  return segment.block(r).state.load(std::memory_order_acquire) == RankState::kAbsent;
}
// 0 if all are about to be counted.
Rank first_absent(const Segment& segment) {
  for (Rank r = 0; r < segment.ranks(); ++r)
    if (is_absent(segment, r)) return r;
  return 0;
}

Status timed_out(const Segment& segment, const Options& options) {
  std::vector<Rank> missing;
  for (Rank r = 0; r < options.ranks; ++r)
    if (is_absent(segment, r)) missing.push_back(r);
  if (missing.empty()) missing.push_back(given_up_for(segment.header()));
  auto error = failure(Code::kTimeout, Blame::kCommunicator, "waited {} ms for rank {} to start",
                       options.limits.timeout.count(), fmt::join(missing, ", "));
  error.value().ranks = missing;
  return error;
}

// Without an answer to how much is free the small ones serve.
std::uint64_t ring_bytes_of(const Options& options) {
  struct statvfs info {};
  const bool known = statvfs("/dev/shm", &info) == 0;
  return affordable_ring(options.ring_bytes, known ? info.f_bavail * info.f_frsize : 0, options.ranks);
}

Status meet(const Segment& segment, const Options& options, Clock::time_point deadline) {
  auto& header = segment.header();
  if (options.rank == 0) {
    header.ring_bytes = ring_bytes_of(options);
    header.magic = memory::kMagic;
    header.ranks = options.ranks;
    header.heap_bytes = segment.heap_bytes();
    header.room_bytes = segment.room_bytes();
    header.ready.store(1, std::memory_order_release);
  }
  memory::RankBlock& self = segment.block(options.rank);
  std::int32_t nobody = 0;
  if (!self.pid.compare_exchange_strong(nobody, getpid()))
    return bad_input("two processes claim rank {} of job '{}'", options.rank, options.id);
  self.processes.store(own_processes(), std::memory_order_relaxed);
  self.state.store(RankState::kPresent, std::memory_order_release);
  header.attached.fetch_add(1, std::memory_order_acq_rel);
  for (Wait wait(options.ranks); !complete(segment); wait.pause()) {
    if (const Rank absent = given_up_for(header); absent >= 0) {
      if (auto why = lost(options, absent)) return tl::make_unexpected(std::move(*why));
      return timed_out(segment, options);
    }
    // Its answer holds only if not all have come by then: a rank that has come may go on and leave what it came from.
    for (Rank r = 0; r < options.ranks; ++r)
      if (auto why = lost(options, r); why && give_up(segment, r)) return tl::make_unexpected(std::move(*why));
    if (Clock::now() >= deadline && give_up(segment, first_absent(segment))) return timed_out(segment, options);
    if (Interruptible::asked() && give_up(segment, options.rank)) return interrupted(options);
  }
  if (header.ready.load(std::memory_order_acquire) != 1 || header.magic != memory::kMagic)
    return bad_input("shared memory {} was made by another version of weft", name_of(options.id));
  return {};
}

}  // namespace

World::World(std::shared_ptr<Share> shared, memory::Segment segment, std::vector<Rank> holders, const Options& options,
             const Room& given)
    : share(std::move(shared)),
      members(std::move(holders)),
      endpoint(segment, options.rank, share->heap(), share->heaps(), "shm", share->mapping().ring_bytes()),
      wait_policy(
          segment, options.rank, options.limits,
          [segment, share = share.get(), members = std::span(members)](Rank peer) {
            return segment.block(peer).state.load(std::memory_order_acquire) == RankState::kLeft ||
                   share->mapping().process_ended(members[static_cast<std::size_t>(peer)]);
          },
          options.names),
      heap_bytes_(options.heap_bytes),
      given_(given) {
  segment.block(options.rank).state.store(RankState::kPresent, std::memory_order_release);
}

World::~World() {
  endpoint.segment().block(endpoint.rank()).state.store(RankState::kLeft, std::memory_order_release);
  if (offered_.bytes > 0) share->release(offered_);
  if (given_.bytes > 0) share->leave(given_, members);
}

namespace {

tl::unexpected<Error> no_room(Bytes bytes) {
  return failure(Code::kNoResources, Blame::kOperation,
                 "/dev/shm has no {} left beside what the job's connections need; enlarge it (docker: --shm-size)",
                 format_bytes(bytes));
}

}  // namespace

Result<void*> World::allocate_unpopulated(Bytes bytes) {
  if (bytes > heap_bytes_ - allocated_) return memory::Heap::exhausted(bytes);
  WEFT_TRY(void* const memory, share->allocate(bytes));
  allocated_ += memory::Heap::size_for(bytes);
  return memory;
}

// Populates the pages now, and leaves what the job's connections still may touch: a full /dev/shm is then an error here
// instead of a SIGBUS at the first store, of this rank or another.
bool World::makes_exist(void* memory, Bytes bytes) const {
  if (!memory::populate(memory, std::max<Bytes>(bytes, 1))) return false;
  const net::shm::Mapping& mapping = share->mapping();
  struct statvfs info {};
  return statvfs("/dev/shm", &info) != 0 ||
         info.f_bavail * info.f_frsize >= bytes_touched(mapping.segment.ranks(), mapping.ring_bytes());
}

Result<void*> World::allocate(Bytes bytes) {
  WEFT_TRY(void* const memory, allocate_unpopulated(bytes));
  if (makes_exist(memory, bytes)) return memory;
  deallocate(memory);
  return no_room(bytes);
}

Result<void*> World::allocate_beyond(Bytes bytes) {
  WEFT_TRY(void* const memory, share->allocate(bytes));
  if (makes_exist(memory, bytes)) return memory;
  share->deallocate(memory);
  return no_room(bytes);
}

void World::deallocate(void* memory) { allocated_ -= share->deallocate(memory); }

// What was not needed the last time serves again.
Offer World::offer() {
  if (offered_.bytes == 0) offered_ = share->reserve(ranks());
  offer_ = share->next_offer();
  return {share->rank(), offered_, offer_};
}

void World::withdraw() {
  const auto by = wait_policy.broken();
  const bool inside = by && by->culprit >= 0 && by->culprit < ranks();
  share->withdraw(offer_, inside ? members[static_cast<std::size_t>(by->culprit)] : share->rank(),
                  inside ? by->cause : fabric::Cause::kLeft);
}

namespace {

// Why a member of a group that has not come to it never will, in ranks of the group.
std::function<std::optional<memory::WaitPolicy::Broken>(Rank)> withdrawals(std::shared_ptr<Share> share,
                                                                           memory::Segment segment,
                                                                           std::vector<Offer> offers) {
  return [share = std::move(share), segment,
          offers = std::move(offers)](Rank r) -> std::optional<memory::WaitPolicy::Broken> {
    const Offer& offer = offers[static_cast<std::size_t>(r)];
    if (!is_absent(segment, r)) return std::nullopt;
    const auto found = share->withdrawn(offer.holder, offer.number);
    if (!found) return std::nullopt;
    for (std::size_t i = 0; i < offers.size(); ++i)
      if (offers[i].holder == found->culprit) return memory::WaitPolicy::Broken{static_cast<Rank>(i), found->cause, r};
    return memory::WaitPolicy::Broken{r, fabric::Cause::kLeft, r};
  };
}

}  // namespace

std::unique_ptr<World> World::move(std::span<const Offer> offers, Rank rank, const memory::WaitPolicy::Limits& limits) {
  const auto ranks = static_cast<Rank>(offers.size());
  const auto bytes = static_cast<Bytes>(Segment::total_bytes(ranks, 0));
  const auto giver = std::find_if(offers.begin(), offers.end(), [&](const Offer& o) { return o.room.bytes >= bytes; });
  const bool gives = giver != offers.end() && giver->holder == share->rank();
  if (giver == offers.end()) return nullptr;
  if (gives) {
    share->cut(offered_, ranks);
    offered_ = {};
  }
  const Segment& all = share->mapping().segment;
  const Segment segment(all.base() + giver->room.place, ranks, 0);
  std::vector<Rank> holders;
  for (const Offer& o : offers) holders.push_back(o.holder);
  for (Rank r = 0; r < ranks; ++r)  // for messages; everybody knows them alike, and some may never come
    segment.block(r).pid.store(all.block(holders[static_cast<std::size_t>(r)]).pid, std::memory_order_relaxed);
  auto world =
      std::make_unique<World>(share, segment, std::move(holders),
                              Options{.rank = rank, .ranks = ranks, .heap_bytes = heap_bytes_, .limits = limits},
                              gives ? Room{giver->room.place, bytes} : Room{});
  world->wait_policy.ask_for_withdrawn(withdrawals(share, segment, {offers.begin(), offers.end()}));
  return world;
}

Result<std::unique_ptr<World>> attach(const Options& options) {
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks)
    return bad_input("rank {} of {} ranks", options.rank, options.ranks);
  if (options.id.empty() ||
      options.id.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") !=
          std::string::npos)
    return bad_input("job id '{}' is not made of letters, digits, '-' and '_'", options.id);

  const auto deadline = Clock::now() + options.limits.timeout;
  const Sizes sizes = Sizes::of(options);
  const std::size_t bytes = Segment::total_bytes(options.ranks, sizes.heap, sizes.room);
  Result<UniqueFd> fd = options.rank == 0 ? create(options, bytes) : find(options, bytes, deadline);
  if (!fd) return tl::make_unexpected(fd.error());
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd->get(), 0);
  if (base == MAP_FAILED) {
    if (options.rank == 0) remove_name(options.id);
    return system_failure("mmap", name_of(options.id));
  }
  auto mapping =
      std::make_unique<Mapping>(Segment(static_cast<std::byte*>(base), options.ranks, sizes.heap, sizes.room), bytes);
  const Segment& segment = mapping->segment;
  const auto until = [](const std::byte* from, const std::byte* to) { return static_cast<std::size_t>(to - from); };
  madvise(segment.heap(0), until(segment.heap(0), segment.room(0)), MADV_HUGEPAGE);  // where the kernel allows it
  madvise(segment.room(0), until(segment.room(0), segment.room(options.ranks)), MADV_DONTDUMP);  // mostly nothing
  Status met = meet(segment, options, deadline);
  if (met) met = check_processes(segment, options.rank);
  // Without a rank that gives up, the job is never complete; rank 0 may have died before it could.
  const bool gave_up = !met && met.error().blame == Blame::kCommunicator;
  if (options.rank == 0 || (gave_up && still_names(options.id, fd->get()))) remove_name(options.id);
  if (!met) return tl::make_unexpected(met.error());
  mapping->watch(options.rank);
  std::vector<Rank> all(static_cast<std::size_t>(options.ranks));
  std::iota(all.begin(), all.end(), 0);
  auto share = std::make_shared<Share>(std::move(mapping), options.rank);
  const Segment own = share->mapping().segment;
  return std::make_unique<World>(std::move(share), own, std::move(all), options);
}

void remove_name(const std::string& id) { shm_unlink(name_of(id).c_str()); }

void sweep_names() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    const std::string file = entry.path().filename();
    if (!file.starts_with("weft-")) continue;
    const UniqueFd fd(shm_open(file.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    struct stat info {};
    if (fd.get() < 0 || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) continue;
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0 && still_names(file.substr(5), fd.get())) shm_unlink(file.c_str());
  }
}

}  // namespace weft::net::shm
