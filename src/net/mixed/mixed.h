#pragma once

#include <functional>
#include <memory>

#include "net/messages/world.h"
#include "net/mixed/wait_policy.h"
#include "net/shm/shm.h"

namespace weft::net::mixed {

// One rank of a job on several machines, joined by shared memory within each and messages across. See
// exec::WorldExecutor for what it is used as.
struct World {
  using Endpoint = mixed::Endpoint;

  World(std::string_view name, std::unique_ptr<shm::World> near, std::unique_ptr<messages::World> far,
        std::vector<Rank> members, WaitPolicy::Limits limits);

  Rank ranks() const { return endpoint.ranks(); }
  // Ordinary memory: no peer loads or stores it.
  Result<void*> allocate(Bytes bytes) { return far->allocate(bytes); }
  void deallocate(void* memory) { far->deallocate(memory); }

  std::unique_ptr<shm::World> near;
  std::unique_ptr<messages::World> far;
  Endpoint endpoint;
  WaitPolicy wait_policy;
};

inline constexpr Bytes kNoHeap = 4096;  // buffers are not shared

struct Options {
  std::string_view name;  // of the fabric, e.g. "shm+tcp"; outlives it
  // Opens what carries messages between machines (net/tcp, net/ucx), to all who have met.
  std::function<Result<std::unique_ptr<messages::World>>(bootstrap::Meeting meeting, Rank rank)> across;
  WaitPolicy::Limits limits{};
  Bytes heap_bytes = kNoHeap;  // of every rank's part of the segment, for who puts something there himself
  std::size_t ring_bytes = memory::kSmallRingBytes;  // see shm::Options
  shm::LostRank lost = {};                           // of a group that has met before: see shm::Options
};

// Joins those who have met: first the ranks of this machine share a segment; connections to others open when they are
// used. Errors: those of shm::attach and of `across`.
Result<std::unique_ptr<World>> open(bootstrap::Meeting meeting, Rank rank, const Options& options);

}  // namespace weft::net::mixed
