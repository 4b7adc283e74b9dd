#pragma once

#include <atomic>
#include <bit>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "exec/fabric/fabric.h"
#include "net/memory/heap.h"
#include "net/memory/segment.h"

namespace weft::net::shm {

// A mapped segment, and how to find out that a process that has mapped it has ended.
class Mapping {
 public:
  Mapping(memory::Segment segment, std::size_t bytes) : segment(segment), bytes_(bytes) {}
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<std::byte> memory() const { return {segment.base(), bytes_}; }
  // Watches the peers' processes. Requires: all ranks are attached.
  void watch(Rank self);
  bool process_ended(Rank peer) const;
  // Ends the peer's process with this exit status, if it is there and accepts it (end_job.h). Never another process
  // that has its number since.
  void end_process(Rank peer, int status) const;
  // Of large messages, of all its connections. Requires: all ranks are attached.
  std::size_t ring_bytes() const {
    const std::uint64_t bytes = segment.header().ring_bytes;
    const bool valid = std::has_single_bit(bytes) && bytes >= memory::kSmallRingBytes && bytes <= memory::kRingBytes;
    return valid ? static_cast<std::size_t>(bytes) : memory::kSmallRingBytes;
  }

  const memory::Segment segment;

 private:
  std::size_t bytes_;
  std::vector<int> process_fds_;  // -1: watched by process number instead
};

// Room in a segment for the connections of a group of its ranks.
struct Room {
  std::int64_t place = -1;  // from the segment's start
  Bytes bytes = 0;          // 0: none
};

// A process's part of a segment: where its communicators there take memory from. All that stem from one by splitting
// have it in common. Thread: any.
class Share {
 public:
  // `rank`: of this process in the segment.
  Share(std::unique_ptr<const Mapping> mapping, Rank rank);

  const Mapping& mapping() const { return *mapping_; }
  Rank rank() const { return rank_; }
  std::span<const std::byte> heap() const;
  // Of all ranks.
  std::span<const std::byte> heaps() const;

  // Memory that peers reach, as yet without pages. Errors: kNoResources.
  Result<void*> allocate(Bytes bytes);
  // Returns the size of the block. Requires: as Heap::deallocate.
  Bytes deallocate(void* memory);

  // A number for an offer of this process to make a group.
  std::uint32_t next_offer() { return ++offers_; }
  // Takes that offer back; `culprit`, a rank of the mapping's, broke the communicator that makes the group.
  void withdraw(std::uint32_t offer, Rank culprit, fabric::Cause cause);
  // Why that rank's offer was taken back, if it was.
  struct Withdrawal {
    Rank culprit;
    fabric::Cause cause;
  };
  std::optional<Withdrawal> withdrawn(Rank rank, std::uint32_t offer) const;

  // Room for any group of `ranks`, or for a smaller one where that is too much: zeros. What all of the group
  // touch first has pages: otherwise they would all ask for them at once, and sleep until one has got them. None: there
  // is no more, or /dev/shm could not hold what the group would touch.
  Room reserve(Rank ranks);
  // As much as `ranks` need of what was reserved; the rest can be had again.
  void cut(const Room& room, Rank ranks);
  void release(const Room& room);
  // This rank has left the group that has its segment there, whose members are these ranks of the mapping's: the room
  // can be had again when the others have, too.
  void leave(const Room& room, std::vector<Rank> members);

 private:
  struct Left {
    Room room;
    std::vector<Rank> members;
  };
  // Takes back what nobody uses any more. `ended`: also looks whether processes have ended, a system call each.
  void take_back(bool ended) WEFT_REQUIRES(mutex_);
  bool used(const Left& left, bool ended) const;
  void free(const Room& room) WEFT_REQUIRES(mutex_);

  const std::unique_ptr<const Mapping> mapping_;
  const Rank rank_;
  std::atomic<std::uint32_t> offers_{0}, withdrawn_{0};
  Mutex mutex_;
  memory::Heap heap_ WEFT_GUARDED_BY(mutex_);
  FreeList rooms_ WEFT_GUARDED_BY(mutex_);  // offsets from the segment's start
  std::vector<Left> left_ WEFT_GUARDED_BY(mutex_);
};

// What `ranks` touch: one strand in full use between each rank and kNear peers, as many as trees, rings and log steps
// have; between all others what small messages touch. All-to-all exchanges of large messages touch more: of every pair
// as much as they send, up to a connection.
inline constexpr Rank kNear = 64;
std::uint64_t bytes_touched(Rank ranks, std::size_t ring_bytes = memory::kSmallRingBytes);
// Whether /dev/shm, with `free_bytes` free, holds that. Touching a page that it has no room for kills the process, so
// ask first.
Status check_free(std::uint64_t free_bytes, Rank ranks, std::size_t ring_bytes = memory::kSmallRingBytes);
// A ring of this size, or of less where /dev/shm with `free_bytes` free does not hold several such jobs.
std::size_t affordable_ring(std::size_t wanted, std::uint64_t free_bytes, Rank ranks);
// The ring whose messages have left a sender's own cache when they are loaded; all rings together take at most half of
// the cache that the cores share. `core_cache`: of one core.
std::size_t ring_for(Bytes core_cache, Bytes shared_cache, Rank ranks);

}  // namespace weft::net::shm
