#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/memory/endpoint.h"
#include "net/memory/wait_policy.h"
#include "net/shm/share.h"

namespace weft::net::shm {

using LostRank = std::function<std::optional<Error>(Rank)>;

struct Options {
  std::string id;  // shared by the ranks of one job and by nobody else: letters, digits, '-' and '_'
  Rank rank = 0;
  Rank ranks = 1;
  Bytes heap_bytes = Bytes{1} << 30;  // registered memory per rank; address space, not memory, until it is used
  std::size_t ring_bytes = memory::kSmallRingBytes;  // of every connection's large messages; rank 0's count
  memory::WaitPolicy::Limits limits;
  // Of ranks that knew each other before: why this one will not come, in the words and numbers of the caller's
  // communicator; nothing: it may come. It is asked again and again. Empty: nobody knows.
  LostRank lost = {};
  std::vector<Rank> names = {};  // see memory::WaitPolicy
};

// What a rank says to those with whom it may form a group inside a segment.
struct Offer {
  Rank holder = -1;  // its rank in the segment
  Room room = {};    // that it could give
  std::uint32_t number = 0;
};

// One rank as a process. See exec::WorldExecutor for what it is used as.
struct World {
  using Endpoint = memory::Endpoint;

  // With its connections in `segment`, which is the share's or lies in its room; `members`: the ranks there of this
  // world's. `given`: the room, if it is this rank's.
  World(std::shared_ptr<Share> share, memory::Segment segment, std::vector<Rank> members, const Options& options,
        const Room& given = {});
  ~World();

  Rank ranks() const { return endpoint.segment().ranks(); }
  // Errors: kNoResources: WEFT_HEAP, as this world's limit, or /dev/shm.
  Result<void*> allocate(Bytes bytes);
  // Without making the pages: they may come to lack.
  Result<void*> allocate_unpopulated(Bytes bytes);
  void deallocate(void* memory);
  // Outside of that limit, for copies of what peers do not reach. Errors: kNoResources: the address space of this job's
  // heaps, which is larger, or /dev/shm.
  Result<void*> allocate_beyond(Bytes bytes);
  void deallocate_beyond(void* memory, Bytes) { share->deallocate(memory); }

  // Room for one new group of these ranks or some of them.
  Offer offer();
  // The group of the last offer() does not come about on this rank: others, who may have seen the offer, read why.
  void withdraw();
  // This rank in the group of those who made the offers, as `rank` of them: in the room of the first that has enough.
  // It does not wait for the others: a rank that never comes is noticed as one that dies, or reads as withdrawn. Null:
  // nobody has enough, so attach().
  std::unique_ptr<World> move(std::span<const Offer> offers, Rank rank, const memory::WaitPolicy::Limits& limits);

  const std::shared_ptr<Share> share;
  const std::vector<Rank> members;
  Endpoint endpoint;
  memory::WaitPolicy wait_policy;

 private:
  bool makes_exist(void* memory, Bytes bytes) const;

  const Bytes heap_bytes_;           // that may be allocated
  std::atomic<Bytes> allocated_{0};  // freed by any thread
  const Room given_;
  Room offered_;
  std::uint32_t offer_ = 0;  // the last offer's number
};

// Meets the other ranks; returns when all are there. No server: rank 0 creates the segment under a name made of the id
// (mode 0600), the others find it, and the name is removed as soon as all have mapped it, or one of them gives up.
// Errors: kTimeout naming the missing ranks; kPeerDied: one that has_ended reports; kInvalidArgument (the ids of two
// jobs collide, ranks disagree, ranks in several PID namespaces, who could not watch each other); kNoResources (too
// small a /dev/shm), with what is missing.
Result<std::unique_ptr<World>> attach(const Options& options);

// Removes the segment's name if the job died before it could. For launchers. Errors are ignored: it is usually gone.
void remove_name(const std::string& id);

// Removes names of this user's segments whose rank 0 has ended without removing them: it holds a lock on its file for
// as long as the name is there. Errors are ignored. Thread: any.
void sweep_names();

}  // namespace weft::net::shm
