#include "net/shm/share.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "net/memory/group.h"
#include "net/shm/end_job.h"

namespace weft::net::shm {
namespace {

using memory::RankState;
using memory::Segment;

Bytes bytes_for(Rank ranks) { return static_cast<Bytes>(Segment::total_bytes(ranks, 0)); }

// Gives pages back; from then on they read as zero. False: they are as they were.
bool clear(std::byte* memory, Bytes bytes) {
  return madvise(memory, static_cast<std::size_t>(bytes), MADV_REMOVE) == 0;
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

bool Mapping::process_ended(Rank peer) const {
  pollfd watched{process_fds_[static_cast<std::size_t>(peer)], POLLIN, 0};
  if (watched.fd >= 0) return poll(&watched, 1, 0) > 0;
  return kill(segment.block(peer).pid.load(), 0) != 0 && errno == ESRCH;
}

void Mapping::end_process(Rank peer, int status) const {
  shm::end_process(process_fds_[static_cast<std::size_t>(peer)], status);
}

Share::Share(std::unique_ptr<const Mapping> mapping, Rank rank)
    : mapping_(std::move(mapping)),
      rank_(rank),
      heap_(mapping_->segment.heap(rank), mapping_->segment.heap_bytes()),
      rooms_(mapping_->segment.room(rank) - mapping_->segment.base(),
             mapping_->segment.room(rank) - mapping_->segment.base() + mapping_->segment.room_bytes(),
             memory::Heap::kPage) {}

std::span<const std::byte> Share::heap() const {
  const Segment& s = mapping_->segment;
  return {s.heap(rank_), static_cast<std::size_t>(s.heap_bytes())};
}

std::span<const std::byte> Share::heaps() const {
  const Segment& s = mapping_->segment;
  return {s.heap(0), s.heap(s.ranks() - 1) + s.heap_bytes()};
}

Result<void*> Share::allocate(Bytes bytes) {
  const MutexLock guard(mutex_);
  return heap_.allocate(bytes);
}

Bytes Share::deallocate(void* memory) {
  const MutexLock guard(mutex_);
  const Bytes size = heap_.deallocate(memory);
  clear(static_cast<std::byte*>(memory), size);  // if not, the pages are reused
  return size;
}

void Share::withdraw(std::uint32_t offer, Rank culprit, fabric::Cause cause) {
  const std::uint64_t why = std::uint64_t{static_cast<std::uint32_t>(cause)} << memory::kCauseShift;
  mapping_->segment.block(rank_).withdrawn[withdrawn_++ % memory::kWithdrawn].store(
      std::uint64_t{offer} << 32 | why | static_cast<std::uint64_t>(culprit + 1), std::memory_order_release);
}

std::optional<Share::Withdrawal> Share::withdrawn(Rank rank, std::uint32_t offer) const {
  for (const auto& place : mapping_->segment.block(rank).withdrawn) {
    const std::uint64_t found = place.load(std::memory_order_acquire);
    if (found == 0 || found >> 32 != offer) continue;
    const auto who = static_cast<Rank>(found & ((std::uint64_t{1} << memory::kCauseShift) - 1)) - 1;
    return Withdrawal{who, static_cast<fabric::Cause>(found >> memory::kCauseShift & 0xf)};
  }
  return std::nullopt;
}

Room Share::reserve(Rank ranks) {
  struct statvfs info {};
  if (statvfs("/dev/shm", &info) == 0 && !check_free(info.f_bavail * info.f_frsize, ranks, mapping_->ring_bytes()))
    return {};
  // Where ranks are many, groups of all of them are few; then an eighth of what there is serves smaller ones.
  const Bytes wanted = std::min(bytes_for(ranks), mapping_->segment.room_bytes() / 8);
  if (wanted == 0) return {};
  const MutexLock guard(mutex_);
  take_back(false);
  auto place = rooms_.allocate(wanted);
  if (!place) {
    take_back(true);
    place = rooms_.allocate(wanted);
  }
  if (!place) return {};
  const Segment segment(mapping_->segment.base() + *place, ranks, 0);
  const std::byte* const blocks_end = reinterpret_cast<std::byte*>(&segment.block(ranks));
  if (memory::populate(segment.base(), std::min<Bytes>(blocks_end - segment.base(), wanted))) return {*place, wanted};
  rooms_.release(*place);
  return {};
}

void Share::cut(const Room& room, Rank ranks) {
  const MutexLock guard(mutex_);
  rooms_.cut(room.place, bytes_for(ranks));
}

void Share::release(const Room& room) {
  const MutexLock guard(mutex_);
  rooms_.release(room.place);
}

void Share::leave(const Room& room, std::vector<Rank> members) {
  Left left{room, std::move(members)};
  const MutexLock guard(mutex_);
  if (used(left, false))
    left_.push_back(std::move(left));
  else
    free(room);
}

bool Share::used(const Left& left, bool ended) const {
  const Segment segment(mapping_->segment.base() + left.room.place, static_cast<Rank>(left.members.size()), 0);
  for (Rank m = 0; m < segment.ranks(); ++m)
    if (segment.block(m).state.load(std::memory_order_acquire) != RankState::kLeft &&
        !(ended && mapping_->process_ended(left.members[static_cast<std::size_t>(m)])))
      return true;
  return false;
}

void Share::take_back(bool ended) {
  std::erase_if(left_, [&](const Left& left) WEFT_REQUIRES(mutex_) {
    if (used(left, ended)) return false;
    free(left.room);
    return true;
  });
}

// The next group expects zeros; what cannot be cleared is not used again.
void Share::free(const Room& room) {
  if (clear(mapping_->segment.base() + room.place, room.bytes)) rooms_.release(room.place);
}

std::uint64_t bytes_touched(Rank ranks, std::size_t ring_bytes) {
  // Tail and head, a page of a line protocol's slots, and a page of the other ring.
  constexpr std::uint64_t kSmall = 12 << 10;
  const auto n = static_cast<std::uint64_t>(ranks), near = std::min(n, static_cast<std::uint64_t>(kNear));
  const std::uint64_t connection = sizeof(memory::Connection) - memory::kRingBytes + ring_bytes;
  return n * (near * connection + (n - near) * kSmall + memory::kScratchBytes) + (1 << 20);
}

std::size_t affordable_ring(std::size_t wanted, std::uint64_t free_bytes, Rank ranks) {
  constexpr std::uint64_t kJobs = 4;  // a choice: there may be others
  while (wanted > memory::kSmallRingBytes && free_bytes / kJobs < bytes_touched(ranks, wanted)) wanted /= 2;
  return wanted;
}

std::size_t ring_for(Bytes core_cache, Bytes shared_cache, Rank ranks) {
  const auto n = std::max<Bytes>(ranks, 2);
  const Bytes most = std::min(2 * core_cache, shared_cache / 2 / (n * (n - 1)));
  return std::bit_floor(
      std::clamp(static_cast<std::size_t>(std::max<Bytes>(most, 0)), memory::kSmallRingBytes, memory::kRingBytes));
}

Status check_free(std::uint64_t free_bytes, Rank ranks, std::size_t ring_bytes) {
  const std::uint64_t wanted = bytes_touched(ranks, ring_bytes);
  if (free_bytes >= wanted) return {};
  return failure(Code::kNoResources, Blame::kProcess,
                 "/dev/shm has {} MiB free, {} ranks need {} MiB; enlarge it (docker: --shm-size)", free_bytes >> 20,
                 ranks, (wanted >> 20) + 1);
}

}  // namespace weft::net::shm
